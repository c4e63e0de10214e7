/** What stands in the place of a secret. */
export const REDACTED = "[redacted]";

/** A shorter text is found in many places where it is no secret. */
const LEAST_CHARACTERS = 6;

/** What names of fields and variables have whose values are secrets. Ids of keys and names of secrets are none. */
const OF_SECRETS =
  "secret[-_]?access[-_]?key|(?:secret|encryption|private|api|storage|account|shared|signing)[-_]?key|secret(?![\\w-])|password|passwd|passphrase|token|credential|connection[-_]?string";

const SECRET_NAME = new RegExp(`${OF_SECRETS}|authorization|signature|cookie|grant`, "i");

/** The parts of a connection string of Azure that are secrets. */
const CONNECTION_SECRET = /\b(?:AccountKey|SharedAccessSignature)=([^;]+)/gi;

/** A value that is found in many places where it is no secret: master, version, /pfs/out. */
const PLAIN_WORD = /^[a-z_./-]{1,15}$/i;

/** Whether a variable's or a field's value is a secret by its name. */
export function isSecretName(name: string): boolean {
  return SECRET_NAME.test(name);
}

/** Takes secrets out of texts and values: those that are known, and whatever looks like one. */
export class Redactor {
  readonly #known = new Set<string>();

  /** Never to be shown, in whatever form it stands. */
  add(secret: string | undefined): void {
    if (secret === undefined || secret.length < LEAST_CHARACTERS) return;
    const base64 = Buffer.from(secret).toString("base64");
    for (const form of [secret, encodeURIComponent(secret), JSON.stringify(secret).slice(1, -1), base64]) {
      this.#known.add(form);
    }
  }

  /** What variables hold whose names say that it is secret. */
  addVariables(env: Readonly<Record<string, string | undefined>>): void {
    for (const [name, value] of Object.entries(env)) if (isSecretName(name)) this.#addValue(value);
  }

  /** What the variables of a pipeline's command hold: whoever wrote them may have put secrets into any of them. */
  addOfPipeline(env: Readonly<Record<string, string>>): void {
    for (const [name, value] of Object.entries(env)) {
      if (isSecretName(name) || !PLAIN_WORD.test(value)) this.#addValue(value);
    }
  }

  #addValue(value = ""): void {
    this.add(value);
    for (const [, part] of value.matchAll(CONNECTION_SECRET)) this.add(part);
  }

  text(text: string): string {
    let told = text;
    // A secret may be a part of another one.
    for (const secret of [...this.#known].sort((a, b) => b.length - a.length)) {
      told = told.replaceAll(secret, REDACTED);
    }
    return withoutPatterns(told);
  }

  /** A line of a log, without its end. What is JSON is so afterwards, too. */
  line(line: string): string {
    let fields: unknown;
    try {
      fields = JSON.parse(line);
    } catch {
      return this.text(line);
    }
    return JSON.stringify(this.value(fields));
  }

  /** A copy of what JSON can hold, without the values of secret fields and of variables of commands. */
  value(value: unknown): unknown {
    if (typeof value === "string") return this.text(value);
    if (Array.isArray(value)) return value.map((each) => this.value(each));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([name, field]) => this.#field(name, field)));
  }

  #field(name: string, field: unknown): [string, unknown] {
    if (name === "env" && field !== null && typeof field === "object" && !Array.isArray(field)) {
      return [name, Object.fromEntries(Object.keys(field).map((variable) => [variable, REDACTED]))];
    }
    if (isSecretName(name) && typeof field === "string") return [name, REDACTED];
    // What is known may be a common word: a name of a field must stay, and no two may become one.
    return [withoutPatterns(name), this.value(field)];
  }
}

const KEEP_NAME = `$1${REDACTED}`;

/** What secrets look like in lines of a log, in messages and in addresses. */
const PATTERNS: readonly (readonly [RegExp, string])[] = [
  [/-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(-----END [A-Z ]*PRIVATE KEY-----|$)/g, REDACTED],
  // Presigned addresses: of S3, its older form, Google's, Azure's. They may stand in another address, or in JSON.
  [
    /(?<=^|\W|\\u00[0-9a-f]{2}|%(?:25)*[0-9a-f]{2})((?:X-(?:Amz|Goog)-(?:Signature|Credential|Security-Token)|AWSAccessKeyId|Signature|sig)(?:=|\\u003d|%(?:25)*3d))(?:[^&\s"'\\]|\\u00(?!26)[0-9a-f]{2})+/gi,
    KEEP_NAME,
  ],
  [/\bAWS4-[A-Z0-9-]+ [^"\n\\]*/g, REDACTED],
  [/\b((?:authorization|x-sluice-grant|cookie)["']?\s*[:=]\s*\\?["']?)[^"'\n\\]+/gi, KEEP_NAME],
  [/\b((?:Bearer|Basic) )[A-Za-z0-9._~+/=-]{6,}/g, KEEP_NAME],
  [/(:\/\/)[^/\s:@"']+:[^/\s@"']+@/g, `$1${REDACTED}@`],
  [
    new RegExp(
      String.raw`((?:${OF_SECRETS})[\w-]{0,64}\\*["']?\s*[:=]\s*\\*["']?)(?!\[redacted\])[^\s"',}&\\]{4,}`,
      "gi",
    ),
    KEEP_NAME,
  ],
];

/** The beginning of a quoted value of a secret field, in a text that may itself be quoted in JSON. */
const QUOTED = new RegExp(String.raw`(?:${SECRET_NAME.source})[\w-]{0,64}\\*["']?\s*[:=]\s*(\\*["'])`, "gi");

function withoutPatterns(text: string): string {
  let told = withoutQuoted(text);
  for (const [pattern, instead] of PATTERNS) told = told.replace(pattern, instead);
  return told;
}

/** Without what stands between the quotes of secret fields, whatever it has. */
function withoutQuoted(text: string): string {
  const kept: string[] = [];
  let from = 0;
  QUOTED.lastIndex = 0;
  for (let found = QUOTED.exec(text); found; found = QUOTED.exec(text)) {
    const start = QUOTED.lastIndex;
    const end = endOfQuoted(text, { start, quote: found[1] ?? '"' });
    kept.push(text.slice(from, start), REDACTED);
    from = end;
    QUOTED.lastIndex = end;
  }
  return kept.join("") + text.slice(from);
}

/**
 * Where a quoted value ends: at the quote that has as many backslashes as the one that began it, besides those that stand for
 * backslashes of the value. The end of the text if it was cut.
 */
function endOfQuoted(text: string, { start, quote }: { start: number; quote: string }): number {
  const depth = quote.length;
  const mark = quote.slice(-1);
  for (let at = text.indexOf(mark, start); at !== -1; at = text.indexOf(mark, at + 1)) {
    let first = at;
    while (first > start && text[first - 1] === "\\") first--;
    if ((at - first) % (2 * depth) === depth - 1) return at - (depth - 1);
  }
  return text.length;
}
