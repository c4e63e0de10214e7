/** What a request without a signature hears wherever it has no answer, so that it learns nothing of what is there. */
export const NOT_SIGNED =
  "The request is not signed: send an Authorization header of AWS Signature Version 4, or use a presigned URL.";

/** Every S3 error code that the gateway answers: its status, and its message if there is none more precise. */
const S3_ERRORS = {
  AccessDenied: { status: 403, message: "Access denied." },
  AccessForbidden: { status: 403, message: "CORSResponse: This CORS request is not allowed." },
  AuthorizationHeaderMalformed: { status: 400, message: "The Authorization header is malformed." },
  AuthorizationQueryParametersError: {
    status: 400,
    message: "The signature in the URL's query is malformed.",
  },
  BadDigest: {
    status: 400,
    message: "The body is not what Content-MD5 or the checksum sent with it says: send it again.",
  },
  BadRequest: { status: 400, message: "The request lacks something." },
  BranchFull: {
    status: 400,
    message:
      "The branch's database is full. Keep less of its history ('sluice branch keep <branch>.<repo> --commits N'), and delete files, which is still possible: both give room within minutes. 'sluice repo usage <repo>' shows what holds most; or write to another branch.",
  },
  BucketAlreadyOwnedByYou: { status: 409, message: "The bucket exists already and is yours." },
  EntityTooLarge: { status: 400, message: "Your proposed upload exceeds the maximum allowed size" },
  EntityTooSmall: {
    status: 400,
    message: "A part other than the last is smaller than 5 MiB: upload it again, larger.",
  },
  BucketNotEmpty: {
    status: 409,
    message:
      "The bucket has objects, and is set to be deleted only when it is empty: delete them first, or take 'sluice rb --force', which deletes it with them. 'sluice branch empty-only <branch>.<repo> off' ends that.",
  },
  HeldByFork: {
    status: 409,
    message: "A branch that was made from this one has a copy of the version.",
  },
  IllegalVersioningConfigurationException: {
    status: 400,
    message: "The Versioning element must be specified: give its Status.",
  },
  IncompleteBody: {
    status: 400,
    message: "The body does not have the number of bytes that Content-Length says.",
  },
  InternalError: { status: 500, message: "Something went wrong inside: try again." },
  InvalidAccessKeyId: { status: 403, message: "The access key id is not known here." },
  InvalidArgument: { status: 400, message: "An argument is invalid." },
  InvalidBucketName: {
    status: 400,
    message:
      "A bucket is one branch of one repo and is named '<branch>.<repo>', or '<repo>' alone for the branch 'master': each a letter or digit and up to 62 letters, digits, '_' and '-', with one dot between. That of an open commit, a commit or a tag is '<x>.<branch>.<repo>'.",
  },
  InvalidChunkSizeError: {
    status: 403,
    message: "A chunk of the aws-chunked body has a size that it may not have.",
  },
  InvalidDigest: { status: 400, message: "Content-MD5 must be the base64 of 16 bytes." },
  InvalidPart: {
    status: 400,
    message: "A part was not uploaded, or is not the one that the request names: list the parts.",
  },
  InvalidPartNumber: { status: 416, message: "The object has no part of that number." },
  InvalidPartOrder: { status: 400, message: "The parts are not in ascending order of their numbers." },
  InvalidPolicyDocument: { status: 400, message: "The policy of the form is malformed." },
  InvalidRange: { status: 416, message: "The range lies outside of the object." },
  InvalidRequest: { status: 400, message: "The request is invalid." },
  InvalidTag: { status: 400, message: "The tag provided was not a valid tag." },
  InvalidToken: { status: 400, message: "The session token is not known here." },
  InvalidURI: { status: 400, message: "The URL's percent-encoding is broken or is not UTF-8." },
  KeyTooLongError: { status: 400, message: "The key is longer than 1024 bytes of UTF-8." },
  MalformedACLError: { status: 400, message: "The ACL is not one of S3's." },
  MalformedPOSTRequest: {
    status: 400,
    message: "The body of your POST request is not well-formed multipart/form-data.",
  },
  MalformedPolicy: { status: 400, message: "The policy is not one of S3's." },
  MalformedTrailerError: {
    status: 400,
    message: "The trailer of the aws-chunked body is malformed, or is not what x-amz-trailer announces.",
  },
  MalformedXML: { status: 400, message: "The body is not the XML that this operation takes." },
  MaxMessageLengthExceeded: { status: 400, message: "The body is too large for this operation." },
  MaxPostPreDataLengthExceededError: {
    status: 400,
    message: "Your POST request fields preceding the upload file were too large.",
  },
  MetadataTooLarge: {
    status: 400,
    message: "The headers x-amz-meta-* hold more than 2048 bytes, names and values together.",
  },
  MethodNotAllowed: { status: 405, message: "The method is not allowed here." },
  MissingContentLength: { status: 411, message: "Send Content-Length, or Transfer-Encoding: chunked." },
  MissingSecurityHeader: {
    status: 400,
    message:
      "Your request was missing a required header: say by x-amz-acl, x-amz-grant-* or a body which ACL is meant.",
  },
  NoSuchBucket: { status: 404, message: "The bucket does not exist." },
  NoSuchBucketPolicy: { status: 404, message: "The bucket policy does not exist." },
  NoSuchCORSConfiguration: { status: 404, message: "The CORS configuration does not exist." },
  NoSuchKey: { status: 404, message: "The key does not exist." },
  NoSuchLifecycleConfiguration: { status: 404, message: "The lifecycle configuration does not exist." },
  NoSuchPublicAccessBlockConfiguration: {
    status: 404,
    message: "The public access block configuration was not found.",
  },
  NoSuchTagSet: { status: 404, message: "The TagSet does not exist." },
  NoSuchUpload: {
    status: 404,
    message:
      "The multipart upload does not exist: it was completed, aborted, or ran out, or was never begun.",
  },
  NoSuchVersion: {
    status: 404,
    message: "The branch has no commit or version of that id, or keeps it no more.",
  },
  NoSuchWebsiteConfiguration: {
    status: 404,
    message: "The specified bucket does not have a website configuration.",
  },
  NotImplemented: { status: 501, message: "This is not implemented yet." },
  ObjectLockConfigurationNotFoundError: {
    status: 404,
    message: "Object Lock configuration does not exist for this bucket.",
  },
  OperationAborted: {
    status: 409,
    message: "The upload was given up, or its branch was deleted, while it went on: try again.",
  },
  // Not 409, which object_store, in Rust, takes for "exists already" also of a PUT without a condition.
  PathConflict: {
    status: 400,
    message:
      "A path cannot be a file and a directory at once: delete what is in the way, or take another key.",
  },
  PreconditionFailed: { status: 412, message: "A condition of the request does not hold." },
  ReplicationConfigurationNotFoundError: {
    status: 404,
    message: "The replication configuration was not found.",
  },
  RequestTimeout: { status: 400, message: "The body stopped coming for too long: send it again." },
  RequestTimeTooSkewed: { status: 403, message: "The request's time and the server's are too far apart." },
  ServerSideEncryptionConfigurationNotFoundError: {
    status: 404,
    message: "The server side encryption configuration was not found.",
  },
  ServiceUnavailable: { status: 503, message: "The gateway cannot do this for the moment: try again." },
  SignatureDoesNotMatch: { status: 403, message: "The signature is not the request's." },
  SlowDown: { status: 503, message: "Too many requests for this branch: slow down and try again." },
  StorageFull: { status: 503, message: "The gateway's disk is full." },
  UnexpectedContent: {
    status: 400,
    message:
      "This request does not support content: the ACL is in its headers and in its body, give it in one of them.",
  },
  XAmzContentSHA256Mismatch: {
    status: 400,
    message: "The body is not what x-amz-content-sha256 says: send it again.",
  },
} as const satisfies Record<string, { status: number; message: string }>;

export type S3Code = keyof typeof S3_ERRORS;

export interface S3ErrorDetails {
  /** More precise than the code's own; names field, value and fix. */
  readonly message?: string;
  /** More headers of the answer. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: ErrorBody;
}

/** How the body tells of an error, except that an answer to HEAD has none. */
export type ErrorBody =
  /** S3's document, with more tags that S3 gives to some errors. */
  | { readonly form: "document"; readonly more?: Readonly<Record<string, string | number | undefined>> }
  /** The message as plain text: a condition of a GET that does not hold. */
  | { readonly form: "text" }
  /**
   * Code, message and more tags, without S3's Resource and RequestId: a range or a part that a GET does not find. The
   * contract's errors of ranges are no standard document, and clients that always send a range learn of an empty object
   * by a tag of this one.
   */
  | { readonly form: "short"; readonly more?: Readonly<Record<string, number>> };

const DOCUMENT: ErrorBody = { form: "document" };

/** What an operation throws; render-error.ts makes the answer of it. */
export class S3Error extends Error {
  readonly code: S3Code;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: ErrorBody;

  constructor(code: S3Code, { message, headers = {}, body = DOCUMENT }: S3ErrorDetails = {}) {
    super(message ?? S3_ERRORS[code].message);
    this.name = "S3Error";
    this.code = code;
    this.headers = headers;
    this.body = body;
  }

  get status(): number {
    return S3_ERRORS[this.code].status;
  }
}

export function invalidArgument(message: string): S3Error {
  return new S3Error("InvalidArgument", { message });
}

export function invalidRequest(message: string): S3Error {
  return new S3Error("InvalidRequest", { message });
}
