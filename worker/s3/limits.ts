/** A body that brings nothing for so long is given up, in milliseconds: S3's RequestTimeout. */
export const BODY_IDLE_MS = 20_000;
/** Largest XML body: 1,000 keys of 1,024 bytes, escaped, fit. */
export const MAX_XML_BYTES = 2 * 1024 * 1024;
/** Most keys in one listing or one DeleteObjects (S3's bound). */
export const MAX_KEYS = 1000;
/** Most buckets in one answer (S3's bound). */
export const MAX_BUCKETS = 10_000;
/** Bytes of user metadata, names and values together (S3 User Guide, "Working with object metadata"). */
export const MAX_METADATA_BYTES = 2048;
