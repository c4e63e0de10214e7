/** One rule of S3's CORS configuration of a bucket. */
export interface CorsRule {
  readonly id?: string;
  /** Each with one `*` at most, as in `headers`. */
  readonly origins: readonly string[];
  readonly methods: readonly string[];
  /** Request headers, as they were written. */
  readonly headers: readonly string[];
  /** Headers of answers that scripts may read. */
  readonly exposed: readonly string[];
  readonly maxAgeSeconds?: number;
}

/** What a browser says of a request that a page from elsewhere makes or, in a preflight, is about to make. */
export interface CrossOrigin {
  /** Of the page. */
  readonly origin: string;
  readonly method: string;
  /** The headers that a preflight asks for. */
  readonly headers: readonly string[];
}

/**
 * The `Access-Control-*` headers that a bucket's rules give a request; undefined if no rule is for it. The first rule
 * counts whose origins, methods and headers all fit (S3 User Guide, "How does Amazon S3 evaluate the CORS configuration on
 * a bucket?").
 */
export function accessControl(
  rules: readonly CorsRule[],
  asked: CrossOrigin,
): Record<string, string> | undefined {
  const rule = rules.find((one) => fits(one, asked));
  if (!rule) return undefined;
  const { methods, exposed, maxAgeSeconds } = rule;
  const isForAll = rule.origins.some((origin) => origin === "*");
  return {
    "access-control-allow-origin": isForAll ? "*" : asked.origin,
    "access-control-allow-methods": methods.join(", "),
    // A browser takes no answer to credentials from a server that lets every page in.
    ...(!isForAll && { "access-control-allow-credentials": "true" }),
    ...(asked.headers.length > 0 && {
      "access-control-allow-headers": asked.headers.join(", ").toLowerCase(),
    }),
    ...(exposed.length > 0 && { "access-control-expose-headers": exposed.join(", ") }),
    ...(maxAgeSeconds !== undefined && { "access-control-max-age": String(maxAgeSeconds) }),
  };
}

/** The methods that rules can be about. */
export const CORS_METHODS: ReadonlySet<string> = new Set(["GET", "PUT", "HEAD", "POST", "DELETE"]);

/** Whether a text is a field name of RFC 9110. */
export function isHeaderName(text: string): boolean {
  return /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/.test(text);
}

/** What the answers of a bucket with rules depend on, for caches between it and browsers. */
export const CORS_VARY = "Origin, Access-Control-Request-Headers, Access-Control-Request-Method";

function fits({ origins, methods, headers }: CorsRule, asked: CrossOrigin): boolean {
  return (
    methods.includes(asked.method) &&
    origins.some((pattern) => matches(pattern, asked.origin)) &&
    asked.headers.every((name) =>
      headers.some((pattern) => matches(pattern.toLowerCase(), name.toLowerCase())),
    )
  );
}

/** A `*` stands for any characters, also for none. There is one at most. */
function matches(pattern: string, text: string): boolean {
  const star = pattern.indexOf("*");
  if (star === -1) return pattern === text;
  const [before, after] = [pattern.slice(0, star), pattern.slice(star + 1)];
  return text.length >= before.length + after.length && text.startsWith(before) && text.endsWith(after);
}
