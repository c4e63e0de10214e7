import type { Egress } from "../../../protocol/spec.ts";
import type { Credentials } from "../credentials.ts";
import type { Destination } from "../destination.ts";
import { openAzure } from "./azure.ts";
import { openGcs } from "./gcs.ts";
import { openS3 } from "./s3.ts";
import type { Store } from "./store.ts";

/** The store that an egress names. Its SDK is loaded here, so that only those who need it pay for it. */
export function openStore({
  destination,
  egress: { endpoint },
  credentials,
}: {
  readonly destination: Destination;
  readonly egress: Egress;
  readonly credentials: Credentials;
}): Promise<Store> {
  const { kind, bucket } = destination;
  if (kind === "s3") return openS3({ bucket, endpoint, credentials });
  if (kind === "gs") return openGcs({ bucket, endpoint, credentials });
  return openAzure({ destination, endpoint, credentials });
}
