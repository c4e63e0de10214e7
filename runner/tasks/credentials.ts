import type { SecretSource } from "../secrets/source.ts";
import { EgressFault } from "./store-failure.ts";

/**
 * What lets a client into a store, by the names that the vendors' tools know (`AWS_ACCESS_KEY_ID`, …): from the
 * environment of the runner or from a secret whose keys have these names.
 */
export interface Credentials {
  /** The secret's name; null: the environment, beyond which a client may look further, as its vendor's tools do. */
  readonly secret: string | null;
  get(name: string): string | undefined;
  /** A value that must be there. Throws EgressFault, which names what is missing. */
  need(name: string): string;
  /** The text without any part of these credentials. */
  redact(text: string): string;
  /** Throws EgressFault if an access key is the one that the runner has for its gateway. That one is for nothing else. */
  checkKey(accessKeyId: string): void;
}

interface CredentialsOptions {
  /** Id of the key that the runner has for its gateway. */
  readonly gatewayKey?: string | undefined;
}

/** Credentials in the environment of the runner. */
export function environmentCredentials(
  env: NodeJS.ProcessEnv,
  { gatewayKey }: CredentialsOptions = {},
): Credentials {
  const values = new Map(Object.entries(env).flatMap(([name, value]) => (value ? [[name, value]] : [])));
  return credentialsOf({ secret: null, values, gatewayKey });
}

/** Credentials in a secret. Throws what reading it throws. */
export async function secretCredentials(
  secrets: SecretSource,
  { name, signal, gatewayKey }: CredentialsOptions & { name: string; signal: AbortSignal },
): Promise<Credentials> {
  const values = new Map<string, string>();
  for (const [key, bytes] of await secrets.read(name, signal)) {
    // Files of keys often end in a newline.
    values.set(key, Buffer.from(bytes).toString("utf8").trim());
  }
  return credentialsOf({ secret: name, values, gatewayKey });
}

function credentialsOf({
  secret,
  values,
  gatewayKey,
}: CredentialsOptions & {
  secret: string | null;
  values: ReadonlyMap<string, string>;
}): Credentials {
  const origin = secret === null ? "the environment of the runner" : `secret "${secret}"`;
  const hidden = hiddenParts(values);
  return {
    secret,
    get: (name) => values.get(name),
    need(name) {
      const value = values.get(name);
      if (value === undefined || value === "") throw new EgressFault(`${origin} has no ${name}`);
      return value;
    },
    checkKey(accessKeyId) {
      if (accessKeyId !== gatewayKey) return;
      throw new EgressFault(
        `the key in ${origin} is the one that the runner has for its gateway: use another`,
      );
    },
    redact: (text) => hidden.reduce((left, part) => left.replaceAll(part, "***"), text),
  };
}

/** Key of a secret that holds the JSON of a Google service account; the first is taken. */
export const GOOGLE_JSON_KEYS = ["GOOGLE_APPLICATION_CREDENTIALS_JSON", "service-account.json"] as const;

/** The parts of each value to hide. Names that are missing here hold nothing secret: an account, a region. */
const HIDDEN: Readonly<Record<string, (value: string) => string[]>> = {
  AWS_ACCESS_KEY_ID: (value) => [value],
  AWS_SECRET_ACCESS_KEY: (value) => [value],
  AWS_SESSION_TOKEN: (value) => [value],
  AZURE_STORAGE_KEY: (value) => [value],
  AZURE_STORAGE_SAS_TOKEN: signatureParts,
  AZURE_STORAGE_CONNECTION_STRING: connectionParts,
  ...Object.fromEntries(GOOGLE_JSON_KEYS.map((key) => [key, privateKeyParts])),
};

// Shorter parts are no keys: replacing them would only garble the text.
const MIN_HIDDEN_CHARACTERS = 8;

function hiddenParts(values: ReadonlyMap<string, string>): string[] {
  const parts = [...values].flatMap(([name, value]) => HIDDEN[name]?.(value) ?? []);
  const forms = parts.flatMap((part) => [part, encodeURIComponent(part)]);
  // The longest first: a part may hold another.
  return [...new Set(forms)]
    .filter((part) => part.length >= MIN_HIDDEN_CHARACTERS)
    .sort((a, b) => b.length - a.length);
}

function signatureParts(token: string): string[] {
  const signature = /(?:^|[?&])sig=([^&]*)/.exec(token)?.[1] ?? "";
  return [token, signature, new URLSearchParams(token).get("sig") ?? ""];
}

function connectionParts(text: string): string[] {
  const key = /(?:^|;)AccountKey=([^;]*)/i.exec(text)?.[1] ?? "";
  const token = /(?:^|;)SharedAccessSignature=([^;]*)/i.exec(text)?.[1] ?? "";
  return [text, key, ...signatureParts(token)];
}

/** Lines of the key, so that no piece of it is shown either. */
function privateKeyParts(json: string): string[] {
  const key = /"private_key"\s*:\s*"((?:[^"\\]|\\.)*)"/.exec(json)?.[1] ?? "";
  return [json, ...key.split("\\n").filter((line) => !line.startsWith("-----"))];
}
