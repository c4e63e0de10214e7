/** What a runner printed under one lease. */
export interface Printed {
  readonly lease: string;
  readonly job: string;
  readonly datum: string;
  /** The lines that it sent, and those of which it heard that they are kept. */
  readonly asked: string[];
  readonly kept: string[];
}

interface StoredFile {
  readonly text: string | null;
  readonly version: number;
}

/** What runners have that no gateway knows: the stores of others that results are pushed to, and what commands printed. */
export class Outside {
  readonly printed: Printed[] = [];
  /** Jobs of which a runner said that none of their datums can run, and jobs of which a task failed. */
  readonly endedJobs = new Set<string>();
  readonly failedTasks = new Set<string>();
  readonly #stores = new Map<string, Map<string, StoredFile>>();
  #versions = 0;

  store(url: string): Map<string, StoredFile> {
    const store = this.#stores.get(url) ?? new Map<string, StoredFile>();
    this.#stores.set(url, store);
    return store;
  }

  put(store: Map<string, StoredFile>, { path, text }: { path: string; text: string | null }): void {
    store.set(path, { text, version: ++this.#versions });
  }

  /** The files of a store. */
  files(url: string): Map<string, string> {
    return new Map(
      [...this.store(url)].flatMap(([path, { text }]) => (text === null ? [] : [[path, text] as const])),
    );
  }

  prints(what: Pick<Printed, "lease" | "job" | "datum">): Printed {
    const printed = { ...what, asked: [], kept: [] };
    this.printed.push(printed);
    return printed;
  }
}
