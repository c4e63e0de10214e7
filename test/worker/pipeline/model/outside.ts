/** External stores: what runners pushed there, by URL. */
export class Outside {
  readonly #stores = new Map<string, Map<string, string>>();

  put(url: string, { path, text }: { path: string; text: string }): void {
    this.#store(url).set(path, text);
  }

  remove(url: string, path: string): void {
    this.#store(url).delete(path);
  }

  /** In order of the paths. */
  files(url: string): [string, string][] {
    return [...this.#store(url)].sort(([a], [b]) => (a < b ? -1 : 1));
  }

  #store(url: string): Map<string, string> {
    const store = this.#stores.get(url) ?? new Map<string, string>();
    this.#stores.set(url, store);
    return store;
  }
}
