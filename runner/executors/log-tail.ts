import { LOG_TAIL_BYTES } from "../../protocol/runner.ts";

/** Keeps the last LOG_TAIL_BYTES of what it is given, however much that is. */
export class LogTail {
  #kept: Buffer = Buffer.alloc(0);

  add(chunk: Buffer): void {
    const end = chunk.subarray(-LOG_TAIL_BYTES);
    const before = this.#kept.subarray(Math.max(0, this.#kept.length + end.length - LOG_TAIL_BYTES));
    this.#kept = Buffer.concat([before, end]);
  }

  /** The bytes as text, without a character that was cut in two at the start. */
  text(): string {
    let start = 0;
    const cut = this.#kept.length === LOG_TAIL_BYTES;
    while (cut && start < 4 && ((this.#kept[start] ?? 0) & 0xc0) === 0x80) start += 1;
    return this.#kept.toString("utf8", start);
  }
}
