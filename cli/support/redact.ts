/** What stands in the place of a secret. */
export const REDACTED = "[redacted]";

/** A shorter text is found in many places where it is no secret. */
const LEAST_CHARACTERS = 6;

/** Names of fields and variables whose values are secrets. Ids of keys and names of secrets are none. */
const SECRET_NAME =
  /secret_?access_?key|secret_?key|^secret$|password|passwd|passphrase|token|credential|authorization|signature|cookie|encryption_?key|private_?key|api_?key|grant/i;

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
    for (const [name, value] of Object.entries(env)) if (isSecretName(name)) this.add(value);
  }

  text(text: string): string {
    let told = text;
    // A secret may be a part of another one.
    for (const secret of [...this.#known].sort((a, b) => b.length - a.length)) {
      told = told.replaceAll(secret, REDACTED);
    }
    for (const [pattern, instead] of PATTERNS) told = told.replace(pattern, instead);
    return told;
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
    return [this.text(name), this.value(field)];
  }
}

const KEEP_NAME = `$1${REDACTED}`;

/** What secrets look like in lines of a log, in messages and in addresses. */
const PATTERNS: readonly (readonly [RegExp, string])[] = [
  [/-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(-----END [A-Z ]*PRIVATE KEY-----|$)/g, REDACTED],
  // Presigned addresses: of S3, its older form, Google's, Azure's.
  [
    /\b((?:X-(?:Amz|Goog)-(?:Signature|Credential|Security-Token)|AWSAccessKeyId|Signature|sig)(?:=|%3D))[^&\s"'\\]+/gi,
    KEEP_NAME,
  ],
  [/\bAWS4-[A-Z0-9-]+ [^"\n\\]*/g, REDACTED],
  [/\b((?:authorization|x-sluice-grant|cookie)["']?\s*[:=]\s*\\?["']?)[^"'\n\\]+/gi, KEEP_NAME],
  [/\b((?:Bearer|Basic) )[A-Za-z0-9._~+/=-]{6,}/g, KEEP_NAME],
  [/(:\/\/)[^/\s:@"']+:[^/\s@"']+@/g, `$1${REDACTED}@`],
  [
    /\b(\w*(?:secret_?access_?key|secret_?key|password|passwd|passphrase|token|credential|encryption_?key|private_?key|api_?key)\w*\\?["']?\s*[:=]\s*\\?["']?)[^\s"',}&\\]{4,}/gi,
    KEEP_NAME,
  ],
];
