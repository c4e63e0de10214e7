/** A body that brings nothing for so long is given up, in milliseconds: S3's RequestTimeout. */
export const BODY_IDLE_MS = 20_000;
/** Largest XML body: 1,000 keys of 1,024 bytes, escaped, fit. */
export const MAX_XML_BYTES = 2 * 1024 * 1024;
/** Most tags in XML beside what repeats, such as the root's. */
const SPARE_TAGS = 64;
/** Most tags of one key in DeleteObjects, of one part in CompleteMultipartUpload: itself and up to seven in it. */
const TAGS_OF_ENTRY = 16;
/** Most tags of one lifecycle rule, ends counted: ten tags of objects are 60, and what else S3 has of them is less than 30. */
const TAGS_OF_RULE = 96;
/** Largest XML of CompleteMultipartUpload: 10,000 parts fit, each with a checksum and in a form for people to read. */
export const MAX_COMPLETE_XML_BYTES = 4 * 1024 * 1024;
/** Largest XML of PutBucketCors, and most rules in it (S3 User Guide, "Elements of a CORS configuration"). */
export const MAX_CORS_BYTES = 64 * 1024;
export const MAX_CORS_RULES = 100;
/** Largest XML of PutObjectTagging: ten tags fit in any writing, and a few more are told that they are too many. */
export const MAX_TAGGING_BYTES = 64 * 1024;
/** Largest XML of PutBucketLifecycleConfiguration, and most rules in it (S3 User Guide, "Lifecycle configuration elements"). */
export const MAX_LIFECYCLE_BYTES = 1024 * 1024;
export const MAX_LIFECYCLE_RULES = 1000;
/** Largest XML of the other settings of a bucket: what is taken of them is a few lines, and what is refused is to be named. */
export const MAX_SETTING_BYTES = 64 * 1024;
/** Largest policy of a bucket (S3 User Guide, "Bucket policies for Amazon S3"). */
export const MAX_POLICY_BYTES = 20 * 1024;
/** Highest number of a part (S3 User Guide, "Amazon S3 multipart upload limits"). */
export const MAX_PART_NUMBER = 10_000;
/** Smallest part that is not the last one (same place). */
export const MIN_PART_BYTES = 5 * 1024 * 1024;
/** Most parts in one page of ListParts, and most uploads in one of ListMultipartUploads (S3's bounds). */
export const MAX_PAGE_ENTRIES = 1000;
/** Most rows of the catalogue that one ListBuckets reads. A rare prefix then takes several pages. */
export const MAX_BUCKETS_SCANNED = 10_000;
/** Most keys in one listing or one DeleteObjects (S3's bound). */
export const MAX_KEYS = 1000;
/** Most buckets in one answer (S3's bound). */
export const MAX_BUCKETS = 10_000;
/** Most bytes of a form before its file, boundaries included (S3 API Reference, "POST Object": 20 KB; S3 counts them in thousands). */
export const MAX_FORM_FIELDS_BYTES = 20_000;
/** They must have come within about this time, in milliseconds, as nobody is known to have signed them. */
export const MAX_FORM_FIELDS_MS = 60_000;
/** Most tags in the XML of each operation, before it is parsed. */
export const MAX_TAGS = {
  create: SPARE_TAGS,
  delete: MAX_KEYS * TAGS_OF_ENTRY + SPARE_TAGS,
  complete: MAX_PART_NUMBER * TAGS_OF_ENTRY + SPARE_TAGS,
  cors: MAX_CORS_BYTES / "<a/>".length,
  tagging: SPARE_TAGS * TAGS_OF_ENTRY,
  setting: MAX_SETTING_BYTES / "<a/>".length,
  lifecycle: MAX_LIFECYCLE_RULES * TAGS_OF_RULE + SPARE_TAGS,
};
/** Bytes of user metadata, names and values together (S3 User Guide, "Working with object metadata"). */
export const MAX_METADATA_BYTES = 2048;
