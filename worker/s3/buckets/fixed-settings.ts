import { type S3Code, S3Error } from "../answer/errors.ts";
import { type XmlTags, xmlAnswer } from "../answer/xml.ts";
import { readTextBody } from "../body/read-body.ts";
import { existing } from "../bucket-tree.ts";
import { MAX_SETTING_BYTES } from "../limits.ts";
import type { BucketRequest, Operation } from "../operation.ts";
import { ENCRYPTION_BY_STORE } from "../request/encryption.ts";
import {
  checkAcceleration,
  checkEncryption,
  checkLogging,
  checkNotification,
  checkOwnership,
  checkPublicAccessBlock,
  checkRequestPayment,
  checkTagging,
  checkVersioning,
  refuseObjectLock,
  refuseReplication,
  refuseWebsite,
} from "./fixed-documents.ts";

/**
 * S3's settings of a bucket that are as they are here, for every bucket. Tools read them before they do anything, and many
 * set them to what is so already. A read tells what is so, by S3's document, or by S3's code that nothing is configured. A
 * write that asks for what is so is answered as S3 does, and changes nothing; one that asks for something else is refused, in
 * words. The buckets of open commits, commits and tags are read alike, and are set to nothing.
 */
const SETTINGS_OF_BRANCH =
  "Settings are those of the whole branch: name the bucket '<branch>.<repo>'. A bucket of an open commit, a commit or a tag has none of its own.";

/** Tells what is so of every bucket. */
function shown(root: string, tagsFor: (request: BucketRequest) => XmlTags): Operation<BucketRequest> {
  return {
    permission: "list",

    async handle(request) {
      await existing(request.tree);
      return xmlAnswer(root, tagsFor(request));
    },
  };
}

/** Says by S3's code that nothing is configured. */
function absent(code: S3Code): Operation<BucketRequest> {
  return {
    permission: "list",

    async handle({ tree }) {
      await existing(tree);
      throw new S3Error(code);
    },
  };
}

/** Takes a document that asks for what is so, if there is one: `check` throws for all others. */
function setAlready(
  check: (text: string, config: BucketRequest["context"]["config"]) => void,
  { status = 200 }: { readonly status?: number } = {},
): Operation<BucketRequest> {
  return {
    permission: "admin",
    notOnView: SETTINGS_OF_BRANCH,

    async handle(request) {
      await existing(request.tree);
      check(await readTextBody(request, MAX_SETTING_BYTES), request.context.config);
      return new Response(null, { status });
    },
  };
}

/** 204, since nothing is configured that could be taken away. */
const absentAlready: Operation<BucketRequest> = {
  permission: "admin",
  notOnView: SETTINGS_OF_BRANCH,

  async handle({ tree }) {
    await existing(tree);
    return new Response(null, { status: 204 });
  },
};

/** The bucket's owner has every object, which is no rule that could be taken away. */
const ownershipStays: Operation<BucketRequest> = {
  ...absentAlready,

  async handle({ tree }) {
    await existing(tree);
    throw new S3Error("NotImplemented", {
      message:
        "DeleteBucketOwnershipControls is not implemented: the bucket's owner has every object, which can't be ended.",
    });
  },
};

/** Of a gateway of whose disk nobody says that it encrypts, no encryption is configured. */
const encryptionShown: Operation<BucketRequest> = {
  permission: "list",

  async handle({ tree, context }) {
    await existing(tree);
    if (!context.config.isEncrypted) throw new S3Error("ServerSideEncryptionConfigurationNotFoundError");
    return xmlAnswer("ServerSideEncryptionConfiguration", {
      Rule: {
        ApplyServerSideEncryptionByDefault: { SSEAlgorithm: ENCRYPTION_BY_STORE },
        BucketKeyEnabled: false,
      },
    });
  },
};

export const FIXED_SETTINGS = {
  DeleteBucketEncryption: absentAlready,
  DeleteBucketOwnershipControls: ownershipStays,
  DeleteBucketReplication: absentAlready,
  DeleteBucketTagging: absentAlready,
  DeleteBucketWebsite: absentAlready,
  DeletePublicAccessBlock: absentAlready,
  GetBucketAccelerateConfiguration: shown("AccelerateConfiguration", () => ({})),
  GetBucketEncryption: encryptionShown,
  GetBucketLogging: shown("BucketLoggingStatus", () => ({})),
  GetBucketNotificationConfiguration: shown("NotificationConfiguration", () => ({})),
  GetBucketOwnershipControls: shown("OwnershipControls", () => ({
    Rule: { ObjectOwnership: "BucketOwnerEnforced" },
  })),
  GetBucketReplication: absent("ReplicationConfigurationNotFoundError"),
  GetBucketRequestPayment: shown("RequestPaymentConfiguration", () => ({ Payer: "BucketOwner" })),
  GetBucketTagging: absent("NoSuchTagSet"),
  /** On: every commit stays readable by its id. Of a view of the branch there are no versions. */
  GetBucketVersioning: shown("VersioningConfiguration", ({ address }) =>
    address.view === undefined ? { Status: "Enabled" } : {},
  ),
  GetBucketWebsite: absent("NoSuchWebsiteConfiguration"),
  GetObjectLockConfiguration: absent("ObjectLockConfigurationNotFoundError"),
  GetPublicAccessBlock: absent("NoSuchPublicAccessBlockConfiguration"),
  PutBucketAccelerateConfiguration: setAlready(checkAcceleration),
  PutBucketEncryption: setAlready(checkEncryption),
  PutBucketLogging: setAlready(checkLogging),
  PutBucketNotificationConfiguration: setAlready(checkNotification),
  PutBucketOwnershipControls: setAlready(checkOwnership),
  PutBucketReplication: setAlready(refuseReplication),
  PutBucketRequestPayment: setAlready(checkRequestPayment),
  PutBucketTagging: setAlready(checkTagging, { status: 204 }),
  PutBucketVersioning: setAlready(checkVersioning),
  PutBucketWebsite: setAlready(refuseWebsite),
  PutObjectLockConfiguration: setAlready(refuseObjectLock),
  PutPublicAccessBlock: setAlready(checkPublicAccessBlock),
} satisfies Record<string, Operation<BucketRequest>>;
