import { type Secret, SecretMissing } from "./source.ts";

/** What the runner itself signs with. It opens what no single pipeline may see, so no pipeline gets it, whoever asks. */
export interface OwnKey {
  readonly secretAccessKey: string;
  /** The name of the secret that it comes from, if it comes from one. Its next key is there before this runner knows it. */
  readonly secretName?: string | undefined;
}

/** Throws SecretMissing for the name under which the runner's own key is kept. */
export function checkName(name: string, { secretName }: OwnKey): void {
  if (name === secretName) throw ownKeyIn(name);
}

/** Throws SecretMissing if the runner's own key is anywhere in a secret, such as in a file of its variables. */
export function checkContent(name: string, secret: Secret, { secretAccessKey }: OwnKey): void {
  for (const bytes of secret.values()) {
    if (Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).includes(secretAccessKey))
      throw ownKeyIn(name);
  }
}

function ownKeyIn(name: string): SecretMissing {
  return new SecretMissing(
    `secret "${name}" holds the key of this runner, which no pipeline gets: give the pipeline a key of its own`,
  );
}
