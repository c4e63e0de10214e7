import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import type { Event } from "./recording.ts";

/**
 * A disk as a power cut may leave it. Of what was written to a file, or done to the names of a folder, only what was flushed is
 * there for sure. Everything else may be there or not, each page of a write by itself: file systems promise no order.
 */

/** Whether something that was not flushed is there: asked of each name, and of each page of a write. */
export type Fate = () => boolean;

const PAGE_BYTES = 4096;

/** Something that was done to a file or to the names of a folder, and was not flushed. */
interface Pending<Step> {
  readonly place: number;
  readonly step: Step;
}

type FileStep = { readonly offset: number; readonly data: Buffer } | { readonly size: number };
/** Undefined: the name goes. */
type NameStep = ReadonlyMap<string, Node | undefined>;
type Node = File | Folder;

class File {
  readonly #flushed: Bytes;
  #pending: Pending<FileStep>[] = [];
  /** Where the next write through a descriptor goes. */
  readonly positions = new Map<number, number>();
  size: number;

  constructor(bytes = Buffer.alloc(0)) {
    this.#flushed = new Bytes(bytes);
    this.size = bytes.length;
  }

  change(place: number, step: FileStep): void {
    this.#pending.push({ place, step });
    this.size = "size" in step ? step.size : Math.max(this.size, step.offset + step.data.length);
  }

  flush(before: number): void {
    for (const { place, step } of this.#pending) if (place < before) this.#flushed.apply(step);
    this.#pending = this.#pending.filter(({ place }) => place >= before);
  }

  afterCut(fate: Fate): Buffer {
    const bytes = new Bytes(this.#flushed.all());
    for (const { step } of this.#pending) for (const part of pagesOf(step)) if (fate()) bytes.apply(part);
    return bytes.all();
  }
}

function* pagesOf(step: FileStep): Generator<FileStep> {
  if ("size" in step) return yield step;
  let from = 0;
  while (from < step.data.length) {
    const to = Math.min(step.data.length, from + PAGE_BYTES - ((step.offset + from) % PAGE_BYTES));
    yield { offset: step.offset + from, data: step.data.subarray(from, to) };
    from = to;
  }
}

/** Bytes that grow. */
class Bytes {
  #buffer: Buffer;
  #size: number;

  constructor(bytes: Buffer) {
    this.#buffer = Buffer.from(bytes);
    this.#size = bytes.length;
  }

  all(): Buffer {
    return this.#buffer.subarray(0, this.#size);
  }

  apply(step: FileStep): void {
    if ("size" in step) {
      this.#reserve(step.size);
      this.#buffer.fill(0, Math.min(this.#size, step.size), Math.max(this.#size, step.size));
      this.#size = step.size;
    } else {
      const end = step.offset + step.data.length;
      this.#reserve(end);
      step.data.copy(this.#buffer, step.offset);
      this.#size = Math.max(this.#size, end);
    }
  }

  #reserve(size: number): void {
    if (size <= this.#buffer.length) return;
    const grown = Buffer.alloc(Math.max(size, 2 * this.#buffer.length));
    this.#buffer.copy(grown, 0, 0, this.#size);
    this.#buffer = grown;
  }
}

class Folder {
  readonly #flushed: Map<string, Node>;
  /** As the processes see it. */
  readonly names: Map<string, Node>;
  #pending: Pending<NameStep>[] = [];

  constructor(names: ReadonlyMap<string, Node> = new Map()) {
    this.#flushed = new Map(names);
    this.names = new Map(names);
  }

  change(place: number, step: NameStep): void {
    this.#pending.push({ place, step });
    apply(this.names, step);
  }

  flush(before: number): void {
    for (const { place, step } of this.#pending) if (place < before) apply(this.#flushed, step);
    this.#pending = this.#pending.filter(({ place }) => place >= before);
  }

  afterCut(fate: Fate): ReadonlyMap<string, Node> {
    const names = new Map(this.#flushed);
    for (const { step } of this.#pending) if (fate()) apply(names, step);
    return names;
  }
}

function apply(names: Map<string, Node>, step: NameStep): void {
  for (const [name, node] of step) {
    if (node) names.set(name, node);
    else names.delete(name);
  }
}

export class Disk {
  readonly #path: string;
  readonly #root: Folder;
  /** Files that were removed, as paths below the folder. */
  readonly removed = new Set<string>();

  /** `path`: a folder; what is in it is on the disk for sure. */
  constructor(path: string) {
    this.#path = path;
    this.#root = folderAt(path);
  }

  apply(event: Event): void {
    const { path, done } = event;
    switch (event.kind) {
      case "open":
        this.#open(event);
        break;
      case "write":
        this.#write(event);
        break;
      case "truncate":
        this.#file(path).change(done, { size: event.size });
        break;
      case "flush":
        this.#at(path)?.flush(event.begun);
        break;
      case "mkdir":
        this.#above(path).change(done, new Map([[basename(path), new Folder()]]));
        break;
      case "unlink":
        this.removed.add(relative(this.#path, path));
        this.#above(path).change(done, new Map([[basename(path), undefined]]));
        break;
      case "rename":
        this.#rename(event);
    }
  }

  #open({ path, fd, flags, done }: Extract<Event, { kind: "open" }>): void {
    let file = this.#at(path);
    if (!file) {
      file = new File();
      this.#above(path).change(done, new Map([[basename(path), file]]));
    } else if (file instanceof File && flags.has("O_TRUNC")) {
      file.positions.clear();
      if (file.size > 0) file.change(done, { size: 0 });
    }
    if (file instanceof File) file.positions.set(fd, flags.has("O_APPEND") ? file.size : 0);
  }

  #write({ path, fd, offset, data, done }: Extract<Event, { kind: "write" }>): void {
    const file = this.#file(path);
    const from = offset ?? file.positions.get(fd) ?? 0;
    file.change(done, { offset: from, data });
    if (offset === null) file.positions.set(fd, from + data.length);
  }

  #rename({ path, to, done }: Extract<Event, { kind: "rename" }>): void {
    const node = this.#at(path);
    if (!node || dirname(path) !== dirname(to)) throw new Error(`not understood: ${path} becomes ${to}`);
    const step = new Map<string, Node | undefined>([[basename(path), undefined]]);
    this.#above(path).change(done, step.set(basename(to), node));
  }

  /** Makes what is left of the disk, in a folder that is empty. */
  leaveIn(folder: string, fate: Fate): void {
    leave(this.#root, folder, fate);
  }

  #file(path: string): File {
    const node = this.#at(path);
    if (!(node instanceof File)) throw new Error(`${path} is no file that was seen`);
    return node;
  }

  #above(path: string): Folder {
    const node = this.#at(dirname(path));
    if (!(node instanceof Folder)) throw new Error(`${dirname(path)} is no folder that was seen`);
    return node;
  }

  #at(path: string): Node | undefined {
    const names = relative(this.#path, path).split("/");
    let node: Node | undefined = this.#root;
    for (const name of names)
      if (name !== "") node = node instanceof Folder ? node.names.get(name) : undefined;
    return node;
  }
}

function leave(from: Folder, to: string, fate: Fate): void {
  for (const [name, node] of from.afterCut(fate)) {
    const path = join(to, name);
    if (node instanceof File) writeFileSync(path, node.afterCut(fate));
    else {
      mkdirSync(path);
      leave(node, path, fate);
    }
  }
}

function folderAt(path: string): Folder {
  const names = readdirSync(path, { withFileTypes: true }).filter(({ name }) => !name.endsWith("-shm"));
  return new Folder(
    new Map(
      names.map((entry): [string, Node] => {
        const below = join(path, entry.name);
        return [entry.name, entry.isDirectory() ? folderAt(below) : new File(readFileSync(below))];
      }),
    ),
  );
}
