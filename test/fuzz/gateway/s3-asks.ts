import fc from "fast-check";
import { FORM_FIELDS, MEMBERS } from "../../../worker/s3/request/members.ts";
import { oddHeader, oddText } from "../text.ts";
import { AUTHS, type Auth, type Pair, type S3Ask } from "./s3-ask.ts";
import { plain } from "./s3-operations.ts";

/*
 * Requests to S3's door. Most are what a client would send, and some of these have something odd put to them; what is made up
 * from nothing is refused at the first look, and finds nothing.
 */

const LINES = [...Object.values(MEMBERS), FORM_FIELDS];
const HEADERS = [...new Set(LINES.flatMap(({ headers }) => Object.keys(headers)))].map((name) =>
  name.replace("*", "x"),
);
const PARAMETERS = [...new Set(LINES.flatMap(({ query }) => Object.keys(query)))];

type Oddity = Partial<S3Ask> & { readonly header?: Pair; readonly parameter?: Pair };

/** What may be odd with a request. */
const oddity: fc.Arbitrary<Oddity> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc
      .tuple(fc.constantFrom(...HEADERS.filter((name) => name !== "content-length")), oddHeader)
      .map((pair) => ({ header: pair })),
  },
  {
    weight: 4,
    arbitrary: fc.tuple(fc.constantFrom(...PARAMETERS), oddText).map((pair) => ({ parameter: pair })),
  },
  { weight: 2, arbitrary: fc.record({ path: fc.constantFrom("all", "lower", "bare") }) },
  {
    weight: 1,
    arbitrary: fc.record({
      method: fc.constantFrom("GET", "PUT", "POST", "HEAD", "OPTIONS", "PATCH", "TRACE"),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      behind: fc.constantFrom(
        "%",
        "%zz",
        "%00",
        "%FF",
        "//",
        "/..",
        "/%2e%2e/x",
        "?",
        "#x",
        "&",
        "?a=b?c",
        "%252F",
        ";x",
      ),
    }),
  },
  { weight: 1, arbitrary: fc.record({ transfer: fc.constantFrom("chunked", "cut") }) },
  { weight: 1, arbitrary: fc.record({ auth: fc.constantFrom(...AUTHS) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      bucket: fc.constantFrom(
        "",
        "{repo}",
        "nothing.{repo}",
        "%2E",
        "{bucket}.",
        "a.{bucket}",
        "MASTER.{repo}",
        "é",
      ),
    }),
  },
);

const auth = fc.oneof(
  { weight: 8, arbitrary: fc.constant<Auth>("header") },
  { weight: 2, arbitrary: fc.constant<Auth>("unsigned-payload") },
  { weight: 1, arbitrary: fc.constant<Auth>("presigned") },
);

const WHOLE = { path: "usual", query: [], headers: [], transfer: "length", odd: false } as const;

/** A request to S3's door: three in four are as a client would send them. */
export const s3Ask: fc.Arbitrary<S3Ask> = fc
  .tuple(plain, auth, rarely(fc.array(oddity, { minLength: 1, maxLength: 2 })))
  .map(([ask, by, oddities]) => {
    let whole: S3Ask = { ...WHOLE, auth: by, ...ask };
    for (const each of oddities) whole = made(whole, each);
    return whole;
  });

function rarely<T>(list: fc.Arbitrary<T[]>): fc.Arbitrary<T[]> {
  return fc.oneof({ weight: 3, arbitrary: fc.constant<T[]>([]) }, { weight: 1, arbitrary: list });
}

function made(ask: S3Ask, { header, parameter, ...changes }: Oddity): S3Ask {
  const headers = header ? [...ask.headers, header] : ask.headers;
  const query = parameter ? [...ask.query, parameter] : ask.query;
  return { ...ask, ...changes, headers, query, odd: true };
}
