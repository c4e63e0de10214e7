/** Entries by key, the one used longest ago first: it is also the first to go. Each says how many bytes it takes. */
export class Recent<Entry extends { readonly bytes: number }> {
  /** So many bytes stay. */
  mostBytes: number;
  readonly #entries = new Map<string, Entry>();
  #bytes = 0;

  constructor(mostBytes: number) {
    this.mostBytes = mostBytes;
  }

  get(key: string): Entry | undefined {
    const entry = this.#entries.get(key);
    if (!entry) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    return entry;
  }

  set(key: string, entry: Entry): void {
    this.delete(key);
    this.#entries.set(key, entry);
    this.#bytes += entry.bytes;
    for (const oldest of this.#entries.keys()) {
      if (this.#bytes <= this.mostBytes) return;
      this.delete(oldest);
    }
  }

  delete(key: string): void {
    const entry = this.#entries.get(key);
    if (!entry) return;
    this.#entries.delete(key);
    this.#bytes -= entry.bytes;
  }
}
