/** Which pages may connect to a ws door (02a 16.2). */
export interface OriginRules {
  readonly sameOrigin: boolean;
  /** Empty checks nothing. */
  readonly allowedOrigins: readonly string[];
}

/**
 * Whether a request with this `Origin` may be upgraded. A request without one comes from no page.
 *
 * @param origin the field's value; null when it stands there more than once
 * @param host the request's own `Host`
 */
export function originAllowed(
  origin: string | null | undefined,
  host: string,
  secure: boolean,
  rules: OriginRules,
): boolean {
  if (origin === undefined) return true;
  const page = serialized(origin);
  if (rules.sameOrigin) {
    const own = serialized(`${secure ? "https" : "http"}://${host}`);
    if (page === undefined || page !== own) return false;
  }
  if (rules.allowedOrigins.length === 0) return !rules.sameOrigin || page !== undefined;
  return page !== undefined &&
    rules.allowedOrigins.some((allowed) => serialized(allowed) === page);
}

/** An origin as browsers send it: lower case, no default port; undefined for what is none. */
function serialized(text: string | null): string | undefined {
  if (text === null || !URL.canParse(text)) return undefined;
  const url = new URL(text);
  const { origin } = url;
  const bare = url.pathname === "/" && url.search === "" && url.hash === "" &&
    url.username === "" &&
    url.password === "";
  return bare && origin !== "null" ? origin : undefined;
}
