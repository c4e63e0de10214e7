import { createHmac, hkdfSync, randomBytes, scryptSync, timingSafeEqual } from "node:crypto";
import { readFileSync } from "node:fs";
import { z } from "zod";
import { SealedKey } from "../../protocol/keys.ts";
import { CliError, UsageError } from "../output/failure.ts";

/** What an export of keys is sealed with: a passphrase, or 32 random bytes. */
export interface SealOptions {
  readonly passphraseFile?: string;
  readonly keyFile?: string;
}

/** The variable that may hold the passphrase. */
export const PASSPHRASE_VARIABLE = "SLUICE_EXPORT_PASSPHRASE";
const MIN_PASSPHRASE_CHARACTERS = 12;
const KEY_BYTES = 32;

/** scrypt (RFC 7914) with 128 MiB, as OWASP's cheat sheet on password storage has it. */
const SCRYPT = { n: 131_072, r: 8, p: 1 } as const;
const SCRYPT_MEMORY_BYTES = 256 * 1024 * 1024;
const SALT_BYTES = 16;

const Kdf = z.strictObject({
  name: z.literal("scrypt"),
  n: z.literal(SCRYPT.n),
  r: z.literal(SCRYPT.r),
  p: z.literal(SCRYPT.p),
  salt: z.base64(),
});

/**
 * A file of access keys. What it is sealed with is 32 bytes, by scrypt from a passphrase or from a file. HKDF-SHA256 makes
 * two keys of it: the first seals each access key (SealedKey), with the second `mac` is the HMAC-SHA256, in hex, of the
 * JSON of `keys`. So nothing can be altered, added or left out without what it is sealed with.
 */
const KeyArchive = z.strictObject({
  format: z.literal("sluice-keys"),
  version: z.literal(1),
  /** Null: it was sealed with a file of 32 bytes. */
  kdf: Kdf.nullable(),
  keys: z.array(SealedKey),
  mac: z.string(),
});
type KeyArchive = z.infer<typeof KeyArchive>;

/** The two keys of an archive. */
export interface ArchiveKeys {
  /** Base64. */
  readonly sealing: string;
  readonly mac: Buffer;
  readonly kdf: KeyArchive["kdf"];
}

/** The keys of an archive that is to be written. */
export function newArchiveKeys(options: SealOptions): ArchiveKeys {
  const seal = readSeal(options);
  if (seal.kind === "key") return { ...derived(seal.bytes), kdf: null };
  const salt = randomBytes(SALT_BYTES);
  return {
    ...derived(stretched(seal.passphrase, salt)),
    kdf: { name: "scrypt", ...SCRYPT, salt: salt.toString("base64") },
  };
}

/** The text of an archive. */
export function archiveText(keys: readonly SealedKey[], { kdf, mac }: ArchiveKeys): string {
  const archive = {
    format: "sluice-keys",
    version: 1,
    kdf,
    keys: [...keys],
    mac: macOf(keys, mac),
  } satisfies KeyArchive;
  return `${JSON.stringify(archive)}\n`;
}

/** Reads an archive, and finds out whether it is whole and what it was sealed with is at hand. */
export function openArchive(
  text: string,
  { file, ...options }: SealOptions & { readonly file: string },
): { readonly keys: readonly SealedKey[]; readonly openWith: string } {
  const { kdf, keys, mac } = parsed(text, file);
  const seal = readSeal(options);
  if (seal.kind === "key" && kdf)
    throw new UsageError(`${file} was sealed with a passphrase, not with a key file`);
  if (seal.kind === "passphrase" && !kdf)
    throw new UsageError(`${file} was sealed with a key file, not with a passphrase`);
  const secret =
    seal.kind === "key" ? seal.bytes : stretched(seal.passphrase, Buffer.from(kdf?.salt ?? "", "base64"));
  const opened = derived(secret);
  const [said, real] = [Buffer.from(mac, "hex"), Buffer.from(macOf(keys, opened.mac), "hex")];
  if (said.length !== real.length || !timingSafeEqual(said, real)) {
    throw new CliError(
      `${file} does not open: the ${seal.kind === "key" ? "key" : "passphrase"} is not the one that it was sealed with, or the file was damaged`,
      { code: "NotOpened" },
    );
  }
  return { keys, openWith: opened.sealing };
}

function parsed(text: string, file: string): KeyArchive {
  try {
    return KeyArchive.parse(JSON.parse(text));
  } catch {
    throw new CliError(
      `${file} is no export of access keys that this version of sluice reads, or is cut off`,
      {
        code: "NotOpened",
      },
    );
  }
}

function macOf(keys: readonly SealedKey[], key: Buffer): string {
  const named = keys.map(({ id, sealed }) => ({ id, sealed }));
  return createHmac("sha256", key).update(JSON.stringify(named)).digest("hex");
}

function derived(secret: Buffer): { sealing: string; mac: Buffer } {
  const bytes = Buffer.from(hkdfSync("sha256", secret, "", "sluice-keys 1", 2 * KEY_BYTES));
  return { sealing: bytes.subarray(0, KEY_BYTES).toString("base64"), mac: bytes.subarray(KEY_BYTES) };
}

function stretched(passphrase: string, salt: Buffer): Buffer {
  const { n, r, p } = SCRYPT;
  return scryptSync(passphrase.normalize("NFC"), salt, KEY_BYTES, {
    N: n,
    r,
    p,
    maxmem: SCRYPT_MEMORY_BYTES,
  });
}

type Seal =
  | { readonly kind: "passphrase"; readonly passphrase: string }
  | { readonly kind: "key"; readonly bytes: Buffer };

function readSeal({ passphraseFile, keyFile }: SealOptions): Seal {
  if (passphraseFile !== undefined && keyFile !== undefined) {
    throw new UsageError("--passphrase-file and --key-file exclude each other: give one of them");
  }
  if (keyFile !== undefined)
    return { kind: "key", bytes: keyOf(readFileSync(keyFile, "utf8").trim(), keyFile) };
  const source = passphraseFile ?? PASSPHRASE_VARIABLE;
  const text =
    passphraseFile === undefined ? process.env[PASSPHRASE_VARIABLE] : readFileSync(passphraseFile, "utf8");
  if (text === undefined) {
    throw new UsageError(
      `say what seals the keys: --passphrase-file <file>, --key-file <file>, or the variable ${PASSPHRASE_VARIABLE}`,
    );
  }
  const passphrase = text.replace(/\r?\n$/, "");
  if (passphrase.length >= MIN_PASSPHRASE_CHARACTERS) return { kind: "passphrase", passphrase };
  throw new UsageError(
    `the passphrase in ${source} must have at least ${MIN_PASSPHRASE_CHARACTERS} characters`,
  );
}

function keyOf(text: string, file: string): Buffer {
  const bytes = Buffer.from(text, "base64");
  if (/^[A-Za-z0-9+/]{43}=$/.test(text) && bytes.length === KEY_BYTES) return bytes;
  throw new UsageError(`${file} must hold the base64 of 32 random bytes ('openssl rand -base64 32')`);
}
