/** What a request without a signature hears wherever it has no answer, so that it learns nothing of what is there. */
export const NOT_SIGNED =
  "The request is not signed: send an Authorization header of AWS Signature Version 4, or use a presigned URL.";

/** Every S3 error code that the gateway answers, by its status, and its message if there is none more precise. */
const MESSAGES = {
  400: {
    AuthorizationHeaderMalformed: "The Authorization header is malformed.",
    AuthorizationQueryParametersError: "The signature in the URL's query is malformed.",
    BadDigest: "The body is not what Content-MD5 or the checksum sent with it says: send it again.",
    BadRequest: "The request lacks something.",
    BranchFull:
      "The branch's database is full. Keep less of its history ('sluice branch keep <branch>.<repo> --commits N'), and delete files, which is still possible: both give room within minutes. 'sluice repo usage <repo>' shows what holds most; or write to another branch.",
    EntityTooLarge: "Your proposed upload exceeds the maximum allowed size",
    EntityTooSmall: "A part other than the last is smaller than 5 MiB: upload it again, larger.",
    IllegalVersioningConfigurationException: "The Versioning element must be specified: give its Status.",
    IncompleteBody: "The body does not have the number of bytes that Content-Length says.",
    InvalidArgument: "An argument is invalid.",
    InvalidBucketName:
      "A bucket is one branch of one repo and is named '<branch>.<repo>', or '<repo>' alone for the branch 'master': each a letter or digit and up to 62 letters, digits, '_' and '-', with one dot between. That of an open commit, a commit or a tag is '<x>.<branch>.<repo>'.",
    InvalidDigest: "Content-MD5 must be the base64 of 16 bytes.",
    InvalidLocationConstraint: "The location constraint is no region.",
    InvalidPart: "A part was not uploaded, or is not the one that the request names: list the parts.",
    InvalidPartOrder: "The parts are not in ascending order of their numbers.",
    InvalidPolicyDocument: "The policy of the form is malformed.",
    InvalidRequest: "The request is invalid.",
    InvalidTag: "The tag provided was not a valid tag.",
    InvalidToken: "The session token is not known here.",
    InvalidURI: "The URL's percent-encoding is broken or is not UTF-8.",
    KeyTooLongError: "The key is longer than 1024 bytes of UTF-8.",
    MalformedACLError: "The ACL is not one of S3's.",
    MalformedPOSTRequest: "The body of your POST request is not well-formed multipart/form-data.",
    MalformedPolicy: "The policy is not one of S3's.",
    MalformedTrailerError:
      "The trailer of the aws-chunked body is malformed, or is not what x-amz-trailer announces.",
    MalformedXML: "The body is not the XML that this operation takes.",
    MaxMessageLengthExceeded: "The body is too large for this operation.",
    MaxPostPreDataLengthExceededError: "Your POST request fields preceding the upload file were too large.",
    MetadataTooLarge: "The headers x-amz-meta-* hold more than 2048 bytes, names and values together.",
    MissingSecurityHeader:
      "Your request was missing a required header: say by x-amz-acl, x-amz-grant-* or a body which ACL is meant.",
    // Not 409, which object_store, in Rust, takes for "exists already" also of a PUT without a condition.
    PathConflict:
      "A path cannot be a file and a directory at once: delete what is in the way, or take another key.",
    RequestTimeout: "The body stopped coming for too long: send it again.",
    UnexpectedContent:
      "This request does not support content: the ACL is in its headers and in its body, give it in one of them.",
    XAmzContentSHA256Mismatch: "The body is not what x-amz-content-sha256 says: send it again.",
  },
  403: {
    AccessDenied: "Access denied.",
    AccessForbidden: "CORSResponse: This CORS request is not allowed.",
    InvalidAccessKeyId: "The access key id is not known here.",
    InvalidChunkSizeError: "A chunk of the aws-chunked body has a size that it may not have.",
    RequestTimeTooSkewed: "The request's time and the server's are too far apart.",
    SignatureDoesNotMatch: "The signature is not the request's.",
  },
  404: {
    NoSuchBucket: "The bucket does not exist.",
    NoSuchBucketPolicy: "The bucket policy does not exist.",
    NoSuchCORSConfiguration: "The CORS configuration does not exist.",
    NoSuchKey: "The key does not exist.",
    NoSuchLifecycleConfiguration: "The lifecycle configuration does not exist.",
    NoSuchPublicAccessBlockConfiguration: "The public access block configuration was not found.",
    NoSuchTagSet: "The TagSet does not exist.",
    NoSuchUpload:
      "The multipart upload does not exist: it was completed, aborted, or ran out, or was never begun.",
    NoSuchVersion: "The branch has no commit or version of that id, or keeps it no more.",
    NoSuchWebsiteConfiguration: "The specified bucket does not have a website configuration.",
    ObjectLockConfigurationNotFoundError: "Object Lock configuration does not exist for this bucket.",
    ReplicationConfigurationNotFoundError: "The replication configuration was not found.",
    ServerSideEncryptionConfigurationNotFoundError: "The server side encryption configuration was not found.",
  },
  405: {
    MethodNotAllowed: "The method is not allowed here.",
  },
  409: {
    BucketAlreadyOwnedByYou: "The bucket exists already and is yours.",
    BucketNotEmpty:
      "The bucket has objects, and is set to be deleted only when it is empty: delete them first, or take 'sluice rb --force', which deletes it with them. 'sluice branch empty-only <branch>.<repo> off' ends that.",
    HeldByFork: "A branch that was made from this one has a copy of the version.",
    OperationAborted: "The upload was given up, or its branch was deleted, while it went on: try again.",
  },
  411: {
    MissingContentLength: "Send Content-Length, or Transfer-Encoding: chunked.",
  },
  412: {
    PreconditionFailed: "A condition of the request does not hold.",
  },
  416: {
    InvalidPartNumber: "The object has no part of that number.",
    InvalidRange: "The range lies outside of the object.",
  },
  500: {
    InternalError: "Something went wrong inside: try again.",
  },
  501: {
    NotImplemented: "This is not implemented yet.",
  },
  503: {
    ServiceUnavailable: "The gateway cannot do this for the moment: try again.",
    SlowDown: "Too many requests for this branch: slow down and try again.",
    StorageFull: "The gateway's disk is full.",
  },
} as const;

/** Each code with its status and its message. */
const OF_CODE = Object.fromEntries(
  Object.entries(MESSAGES).flatMap(([status, messages]) =>
    Object.entries(messages).map(([code, message]) => [code, { status: Number(status), message }]),
  ),
) as Record<S3Code, { readonly status: number; readonly message: string }>;

type Messages = typeof MESSAGES;
export type S3Code = { [Status in keyof Messages]: keyof Messages[Status] }[keyof Messages];

interface S3ErrorDetails {
  /** More headers of the answer. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** How the body tells of the error, except that an answer to HEAD has none. */
  readonly form?: ErrorForm;
  /** More tags, which S3 gives to some errors. */
  readonly more?: Readonly<Record<string, string | number | undefined>> | undefined;
}

type ErrorForm =
  /** S3's document. */
  | "document"
  /** The message as plain text: a condition of a GET that does not hold. */
  | "text"
  /**
   * Code, message and more tags, without S3's Resource and RequestId: a range or a part that a GET does not find. The
   * contract's errors of ranges are no standard document, and clients that always send a range learn of an empty object
   * by a tag of this one.
   */
  | "short";

/** What an operation throws; render-error.ts makes the answer of it. */
export class S3Error extends Error {
  override readonly name = "S3Error";
  readonly code: S3Code;
  readonly headers: Readonly<Record<string, string>>;
  readonly form: ErrorForm;
  readonly more: S3ErrorDetails["more"];

  /** `message`: more precise than the code's own; names field, value and fix. */
  constructor(
    code: S3Code,
    message: string = OF_CODE[code].message,
    { headers = {}, form = "document", more }: S3ErrorDetails = {},
  ) {
    super(message);
    this.code = code;
    this.headers = headers;
    this.form = form;
    this.more = more;
  }

  get status(): number {
    return OF_CODE[this.code].status;
  }
}

type Refuse = (message?: string, details?: S3ErrorDetails) => S3Error;

/** The error of each code: `s3Error.InvalidArgument("… is '…': it must be …")`. */
export const s3Error = Object.fromEntries(
  (Object.keys(OF_CODE) as S3Code[]).map((code): [string, Refuse] => [
    code,
    (message, details) => new S3Error(code, message, details),
  ]),
) as Record<S3Code, Refuse>;
