/** Why a request is not let in: an S3 error code and a sentence for people. */
export interface AuthFailure {
  readonly code: AuthFailureCode;
  readonly message: string;
}

type AuthFailureCode =
  | "AccessDenied"
  | "AuthorizationHeaderMalformed"
  | "InvalidAccessKeyId"
  | "InvalidArgument"
  | "InvalidRequest"
  | "InvalidToken"
  | "InvalidURI"
  | "NotImplemented"
  | "RequestTimeTooSkewed"
  | "SignatureDoesNotMatch";
