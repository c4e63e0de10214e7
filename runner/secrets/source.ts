/** What a secret holds: bytes by key. */
export type Secret = ReadonlyMap<string, Uint8Array>;

/** The secrets that one pipeline may use, by name. */
export interface SecretSource {
  /**
   * The secret as it is now, or as it was less than a minute ago. Throws SecretMissing if it can't be had and asking
   * again is of no use; any other error may pass.
   */
  read(name: string, signal: AbortSignal): Promise<Secret>;
}

/** A place where secrets are kept, by name, whoever may use them. */
export interface SecretStore {
  /** As `SecretSource.read`. */
  read(name: string, signal: AbortSignal): Promise<KeptSecret>;
}

/** A secret, and its scope. */
export interface KeptSecret {
  readonly secret: Secret;
  readonly scope: Scope;
}

/** Which pipelines may use a secret, as its owner says beside it. */
export interface Scope {
  /** What stands there (scope.ts); undefined: nothing does. */
  readonly text: string | undefined;
  /** The place in words, such as the path of a file. */
  readonly where: string;
}

/**
 * A secret is missing, may not be read, does not serve the pipeline, or can't be shown as files. The message names it and
 * the place, and never what is in it.
 */
export class SecretMissing extends Error {
  override readonly name = "SecretMissing";
}

/** The most that one secret may hold: as much as Kubernetes lets one hold. */
const MAX_SECRET_BYTES = 1024 * 1024;
const KEY_PATTERN = /^[-._a-zA-Z0-9]{1,253}$/;

/** Returns the secret if its keys can be names of files and it is not too large. `where` is the end of "secret x …". Throws SecretMissing. */
export function checkedSecret(secret: Secret, { name, where }: { name: string; where: string }): Secret {
  let size = 0;
  for (const [key, value] of secret) {
    if (!KEY_PATTERN.test(key) || key.startsWith("..") || key === ".") {
      throw new SecretMissing(
        `secret "${name}" ${where} has the key ${JSON.stringify(key)}; a key is made of letters, digits, '-', '_' and '.'`,
      );
    }
    size += value.length;
  }
  if (size <= MAX_SECRET_BYTES) return secret;
  throw new SecretMissing(`secret "${name}" ${where} holds more than ${MAX_SECRET_BYTES} bytes`);
}
