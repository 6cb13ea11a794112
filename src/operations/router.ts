import type { PasswordChecker } from "../auth/password_checker.ts";
import type { PasswordFile } from "../auth/password_file.ts";
import type { Log } from "../platform/log.ts";
import { CHALLENGE, decide, type Decision, type Peer } from "./access.ts";
import { type HttpRequest, type HttpResponse, textResponse } from "./http/message.ts";

/** What a path answers with. */
export interface Route {
  readonly methods: readonly ("GET" | "HEAD")[];
  /** `rest` is what of the path stands for something, still percent-encoded; otherwise empty. */
  readonly answer: (request: HttpRequest, rest: string) => HttpResponse | Promise<HttpResponse>;
  /** Answered before anybody is asked who they are. */
  readonly open?: true;
}

/** Routes by path; one that ends in `/` stands for the paths with one level more. */
export type Routes = ReadonlyMap<string, Route>;

/** The door that a request came in by. */
export interface Entrance {
  /** Its name, for logs. */
  readonly name: string;
  /** The file in force there; undefined where it has none. */
  readonly operators: PasswordFile | undefined;
}

/** Finds the route, then asks who is asking, then answers (05 section 4.3). */
export class Router {
  readonly #notFound: string;

  constructor(
    private readonly routes: Routes,
    private readonly checker: PasswordChecker,
    private readonly log: Log,
  ) {
    const paths = [...routes.keys()].map((path) =>
      path !== "/" && path.endsWith("/") ? `${path}<name>` : path
    );
    this.#notFound = `there is no such route; there are:\n${paths.join("\n")}\n`;
  }

  async answer(request: HttpRequest, peer: Peer, door: Entrance): Promise<HttpResponse> {
    const found = this.#find(request.path);
    if (found === undefined) return textResponse(404, this.#notFound);
    const { route, rest } = found;
    const { methods } = route;
    if (!methods.some((method) => method === request.method)) {
      return textResponse(405, `this route takes ${methods.join(" and ")}\n`, [
        ["Allow", methods.join(", ")],
      ]);
    }
    if (route.open === undefined) {
      const { head, path } = request;
      const decision = await decide(head, path, peer, door.operators, this.checker);
      if (!decision.served) return this.#refuse(request, door, decision);
    }
    return await route.answer(request, rest);
  }

  #find(path: string): { readonly route: Route; readonly rest: string } | undefined {
    const route = this.routes.get(path);
    // "/" is a path of its own; every other route that ends so needs its last level.
    if (route !== undefined && (path === "/" || !path.endsWith("/"))) return { route, rest: "" };
    const slash = path.lastIndexOf("/") + 1;
    if (slash < 2 || slash === path.length) return undefined;
    const parent = this.routes.get(path.slice(0, slash));
    return parent === undefined ? undefined : { route: parent, rest: path.slice(slash) };
  }

  #refuse(
    request: HttpRequest,
    door: Entrance,
    { status, text, why, user }: Decision & { readonly served: false },
  ): HttpResponse {
    const fields = { listener: door.name, status, user, reason: why };
    // Browsers ask without a password first, and again with one.
    if (status === 401 && !request.head.fields.has("authorization")) {
      this.log.debug("asked for a password on the operations listener", fields);
    } else this.log.warn("refused a request on the operations listener", fields);
    return textResponse(status, `${text}\n`, status === 401 ? [CHALLENGE] : undefined);
  }
}
