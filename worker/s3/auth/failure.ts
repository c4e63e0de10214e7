/** Why a request is not let in: an S3 error code and a sentence for people. */
export interface AuthFailure {
  readonly code: AuthFailureCode;
  readonly message: string;
}

/** An outcome that is a failure. */
export type Failed = { readonly ok: false } & AuthFailure;

type AuthFailureCode =
  | "AccessDenied"
  | "AuthorizationHeaderMalformed"
  | "AuthorizationQueryParametersError"
  | "InvalidAccessKeyId"
  | "InvalidArgument"
  | "InvalidRequest"
  | "InvalidToken"
  | "InvalidURI"
  | "NotImplemented"
  | "RequestTimeTooSkewed"
  | "SignatureDoesNotMatch";
