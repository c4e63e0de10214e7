import fc from "fast-check";
import { mostlyWhole, oddText } from "../text.ts";

/*
 * Bodies of S3's operations. What stands in braces is of the story that sends them (story.ts): `{parts}` are the parts of its
 * upload, `{version}` is a version that it has.
 */

export const KEYS = [
  "a",
  "b.txt",
  "dir/one",
  "dir/two",
  "dir/deep/x",
  "sp ace",
  "plus+",
  "ü/日本",
  "q?&=#",
  "(x)'*!~",
] as const;
export const key = fc.constantFrom(...KEYS);
/** Those that stand in no other's way, and some that do. */
export const anyKey = fc.oneof(
  { weight: 8, arbitrary: key },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      "dir/",
      "new/",
      "a/under",
      "dir",
      "a//b",
      "/lead",
      "..",
      "a/../b",
      "k".repeat(1024),
      "k".repeat(1025),
    ),
  },
  { weight: 1, arbitrary: oddText.filter((text) => text !== "") },
);

function element(tag: string, ...inner: readonly string[]): string {
  return `<${tag}>${inner.join("")}</${tag}>`;
}

function escaped(text: string): string {
  return text.replace(/[&<>]/g, (character) => `&#${character.charCodeAt(0)};`);
}

function maybe(text: fc.Arbitrary<string>): fc.Arbitrary<string> {
  return fc.option(text, { nil: "" });
}

function document(root: string, inner: fc.Arbitrary<string>): fc.Arbitrary<string> {
  const head = fc.constantFrom("", '<?xml version="1.0" encoding="UTF-8"?>\n');
  const namespace = fc.constantFrom("", ' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"');
  return fc
    .tuple(head, namespace, inner)
    .map(([first, xmlns, text]) => `${first}<${root}${xmlns}>${text}</${root}>`);
}

function joined(...parts: readonly fc.Arbitrary<string>[]): fc.Arbitrary<string> {
  return fc.tuple(...parts).map((texts) => texts.join(""));
}

const deletions = fc
  .array(fc.tuple(key, fc.constantFrom("", "", "", "", "", "{version}")), { minLength: 1, maxLength: 4 })
  .map((all) =>
    all
      .map(([name, version]) =>
        element("Object", element("Key", escaped(name)), version ? element("VersionId", version) : ""),
      )
      .join(""),
  );

const tags = fc
  .uniqueArray(fc.constantFrom("k1", "k2", "team", "ü"), { maxLength: 3 })
  .map((names) =>
    element(
      "TagSet",
      ...names.map((name) => element("Tag", element("Key", name), element("Value", `v ${name}`))),
    ),
  );

const filter = fc.constantFrom(
  "<Filter><Prefix>gone/</Prefix></Filter>",
  "<Filter/>",
  "<Prefix>gone/</Prefix>",
  "<Filter><Tag><Key>k1</Key><Value>x</Value></Tag></Filter>",
  "<Filter><And><Prefix>gone/</Prefix><Tag><Key>k</Key><Value>v</Value></Tag></And></Filter>",
);
const action = fc.constantFrom(
  "<Expiration><Days>3</Days></Expiration>",
  "<Expiration><Date>2091-01-01T00:00:00Z</Date></Expiration>",
  "<AbortIncompleteMultipartUpload><DaysAfterInitiation>2</DaysAfterInitiation></AbortIncompleteMultipartUpload>",
  "<NoncurrentVersionExpiration><NoncurrentDays>9</NoncurrentDays></NoncurrentVersionExpiration>",
  "<Transition><Days>1</Days><StorageClass>GLACIER</StorageClass></Transition>",
);
const rules = fc
  .array(
    joined(maybe(fc.constant("<ID>one</ID>")), filter, fc.constant("<Status>Enabled</Status>"), action),
    {
      minLength: 1,
      maxLength: 2,
    },
  )
  .map((all) => all.map((rule, index) => element("Rule", rule.replace("one", `r${index}`))).join(""));

const origins = fc.constantFrom("*", "https://*.example.org", "https://a.example.org", "h*t*p");
const cors = fc
  .tuple(
    origins,
    fc.constantFrom("GET", "PUT", "HEAD", "PATCH"),
    maybe(fc.constant("<MaxAgeSeconds>3</MaxAgeSeconds>")),
  )
  .map(([origin, method, more]) =>
    element("CORSRule", element("AllowedOrigin", origin), element("AllowedMethod", method), more),
  );

const OWNER = element(
  "Owner",
  element("ID", "75aa57f09aa0c8caeab4f8c24e99d10f8e7faeebf76c078efc7c6caea54ba06a"),
);
const grant = fc
  .constantFrom("FULL_CONTROL", "READ", "WRITE", "OTHER")
  .map((permission) =>
    element(
      "AccessControlList",
      `<Grant><Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="Group"><URI>http://acs.amazonaws.com/groups/global/AllUsers</URI></Grantee>${element("Permission", permission)}</Grant>`,
    ),
  );

/** What the policy of a bucket may say, in JSON. */
const policy = fc
  .record({
    effect: fc.constantFrom("Allow", "Deny"),
    action: fc.constantFrom<unknown>("s3:GetObject", ["s3:GetObject", "s3:ListBucket"], "s3:*", []),
    principal: fc.constantFrom<unknown>("*", { AWS: "*" }, { AWS: ["x"] }),
  })
  .map(({ effect, action: Action, principal }) =>
    JSON.stringify({
      Version: "2012-10-17",
      Statement: [{ Effect: effect, Principal: principal, Action, Resource: "arn:aws:s3:::{bucket}/*" }],
    }),
  );

const WHOLE = {
  complete: document("CompleteMultipartUpload", fc.constantFrom("{parts}", "{parts}{parts}", "")),
  delete: document("Delete", joined(deletions, maybe(fc.constant("<Quiet>true</Quiet>")))),
  tagging: document("Tagging", tags),
  lifecycle: document("LifecycleConfiguration", rules),
  cors: document("CORSConfiguration", cors),
  acl: document("AccessControlPolicy", joined(fc.constant(OWNER), grant)),
  policy,
  versioning: document(
    "VersioningConfiguration",
    fc.constantFrom("<Status>Enabled</Status>", "<Status>Suspended</Status>", ""),
  ),
  other: document(
    "BucketLoggingStatus",
    fc.constantFrom("", "<LoggingEnabled><TargetBucket>x</TargetBucket></LoggingEnabled>"),
  ),
  create: document(
    "CreateBucketConfiguration",
    fc.constantFrom("", "<LocationConstraint>us-east-1</LocationConstraint>"),
  ),
};

/** Each as it should be, and at times with flaws. */
export const DOCUMENTS = Object.fromEntries(
  Object.entries(WHOLE).map(([name, text]) => [name, mostlyWhole(text)]),
) as Readonly<Record<keyof typeof WHOLE, fc.Arbitrary<string>>>;
