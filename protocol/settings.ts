import { z } from "zod";
import { Duration } from "./duration.ts";

/** The variables that say how a gateway behaves, all of them optional. The host checks them when it starts, the Worker when it runs. */
export const Settings = z.object({
  /** Encrypts the secrets of access keys at rest; 32 bytes in base64 or base64url. Without it no keys can be made. */
  SLUICE_ENCRYPTION_KEY: z
    .string()
    .regex(/^[A-Za-z0-9+/_-]{43}=?$/, { error: "must be the base64 of 32 bytes" })
    .optional(),
  /** `<bucket>.<domain>` addresses a bucket too; absent: only paths do. */
  SLUICE_DOMAIN: z
    .string()
    .regex(/^[a-z0-9.-]+(:[0-9]+)?$/, { error: "must be a host name in lower case" })
    .optional(),
  /** Days after which a multipart upload that nobody adds to is given up. */
  SLUICE_UPLOAD_DAYS: z.coerce
    .number({ error: "must be a number of days above 0" })
    .positive({ error: "must be a number of days above 0" })
    .default(7),
  /** How long an open commit to which nothing is added is kept, if its opener does not say. */
  SLUICE_SESSION_TTL: Duration.default("24h"),
  /** The longest that its opener may ask for. */
  SLUICE_SESSION_MAX_TTL: Duration.default("168h"),
  /** Whose time Last-Modified is: the branch's newest commit (docs/contract.md, Listings), or the commit that wrote the object. */
  SLUICE_LAST_MODIFIED: z
    .enum(["branch", "object"], { error: "must be 'branch' or 'object'" })
    .default("branch"),
});
