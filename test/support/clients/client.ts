/** One object. */
export interface Place {
  readonly bucket: string;
  readonly key: string;
}

/** The objects of a bucket under a prefix, which is empty or ends in `/`. */
export interface Folder {
  readonly bucket: string;
  readonly prefix: string;
}

/** What is kept with an object beside its bytes. Names of `metadata` are in lower case, without `x-amz-meta-`. */
export interface Description {
  readonly contentType: string;
  readonly metadata: Readonly<Record<string, string>>;
}

/** One level of a bucket, as a file browser shows it: whole keys, and prefixes that end in `/`. */
export interface Level {
  readonly keys: readonly string[];
  readonly folders: readonly string[];
}

/** What a write is conditional on: that the key is free, or that it holds what has this ETag. */
export type Condition = { readonly ifNoneMatch: "*" } | { readonly ifMatch: string };

/**
 * A real S3 client under the verbs that the stories are told in. Files go in and out by their paths on disk, so that
 * no body is ever held whole. A verb that fails throws with what the client said.
 */
export interface Client extends Partial<Extras> {
  makeBucket(bucket: string): Promise<void>;
  buckets(): Promise<string[]>;
  /** By the client's own rules on what is one PUT and what goes in parts. */
  put(file: string, to: Place): Promise<void>;
  get(from: Place, file: string): Promise<void>;
  /** Every key under a folder, page by page, in whatever order. */
  list(folder: Folder): Promise<string[]>;
  browse(folder: Folder): Promise<Level>;
  copy(from: Place, to: Place): Promise<void>;
  /** In as few requests as the client knows how. */
  remove(bucket: string, keys: readonly string[]): Promise<void>;
  close?(): Promise<void>;
}

/** What not every client has a word for. */
export interface Extras {
  putDescribed(file: string, to: Place & { readonly description: Description }): Promise<void>;
  /** The description of an object and its size in bytes. */
  stat(place: Place): Promise<Description & { readonly size: number }>;
  /** Replaces the description, the bytes staying: a copy of an object onto itself. */
  redescribe(place: Place, description: Description): Promise<void>;
  /** The bytes `first` to `last`, both included. */
  range(from: Place, bytes: { readonly first: number; readonly last: number }): Promise<Buffer>;
  /** Whether the bytes came; they do not where the ETag is still the one that is known. */
  getUnlessKnown(from: Place, etag: string): Promise<"sent" | "not modified">;
  putIf(file: string, to: Place & { readonly condition: Condition }): Promise<"put" | "refused">;
  /** A link that lets whoever has it read the object for a while. */
  linkToGet(place: Place): Promise<string>;
  /** A link that lets whoever has it write the object for a while. */
  linkToPut(place: Place): Promise<string>;
  /** A whole folder of files in one run of the client. */
  putFolder(folder: string, to: Folder): Promise<void>;
  getFolder(from: Folder, folder: string): Promise<void>;
  /** Makes the bucket's folder, or the one on disk, like the other; sends only what differs, as the client judges it. */
  syncUp(folder: string, to: Folder): Promise<void>;
  syncDown(from: Folder, folder: string): Promise<void>;
}

export type Extra = keyof Extras;
