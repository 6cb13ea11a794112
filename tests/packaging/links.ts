/** Links of Markdown pages that lead to other files. */

/**
 * The links that lead to none of `names`, as "page: link"; of every page among the names.
 * @param read the text of a page
 */
export function deadLinks(names: ReadonlySet<string>, read: (name: string) => string): string[] {
  return [...names].filter((name) => name.endsWith(".md")).flatMap((page) =>
    [...read(page).matchAll(/\]\(([^)\s]+)\)/g)].map(([, link]) => link)
      .filter((link) => !/^(https?:|#)/.test(link))
      .filter((link) => {
        const { pathname } = new URL(link, `file:///${page}`);
        return !names.has(decodeURIComponent(pathname.slice(1)));
      })
      .map((link) => `${page}: ${link}`)
  );
}
