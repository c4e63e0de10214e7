import { S3Error } from "../answer/errors.ts";
import { SIGNATURE } from "../auth/parse-authorization.ts";
import type { ChunkSignatures } from "./chunk-signatures.ts";

const SIGNATURE_NAME = "x-amz-trailer-signature";

export interface TrailerRules {
  /** The header that x-amz-trailer announces, in lower case; undefined if it announces none. */
  readonly announced: string | undefined;
  /** Says what is wrong with a value. */
  readonly valueFault: (value: string) => string | undefined;
  /** Set if the trailer is signed. */
  readonly signatures: ChunkSignatures | undefined;
}

/** The headers behind the last chunk of an aws-chunked body. Throws MalformedTrailerError and SignatureDoesNotMatch. */
export class Trailer {
  readonly #rules: TrailerRules;
  #value: string | undefined;
  #canonical = "";
  #signature: string | undefined;
  #ended = false;

  constructor(rules: TrailerRules) {
    this.#rules = rules;
  }

  /** The value of the announced header, once it has come. */
  get value(): string | undefined {
    return this.#value;
  }

  /** Whether all that must come has come, or the empty line that is its end. Else the body was cut off. */
  get isComplete(): boolean {
    const { announced, signatures } = this.#rules;
    const lacks =
      (announced !== undefined && this.#value === undefined) || (signatures && this.#signature === undefined);
    return !lacks || this.#ended;
  }

  /** The next line, without its end. Empty lines come anywhere: clients differ in that. */
  line(text: string): void {
    if (text === "") {
      this.#ended = true;
      return;
    }
    const colon = text.indexOf(":");
    if (colon < 1) throw malformed("a line is not '<name>:<value>'");
    const name = text.slice(0, colon).trim().toLowerCase();
    const value = text.slice(colon + 1).trim();
    if (this.#signature !== undefined) throw malformed(`'${name}' comes after ${SIGNATURE_NAME}`);
    if (name === SIGNATURE_NAME && this.#rules.signatures) this.#takeSignature(value);
    else this.#takeHeader(name, value);
  }

  /** Call it at the end of the body. */
  end(): void {
    const { announced, signatures } = this.#rules;
    if (announced !== undefined && this.#value === undefined) {
      throw malformed(`x-amz-trailer announces '${announced}', which did not come`);
    }
    if (!signatures) return;
    if (this.#signature === undefined) throw malformed(`it has no ${SIGNATURE_NAME}`);
    if (!signatures.endTrailer(this.#signature, this.#canonical)) {
      throw new S3Error("SignatureDoesNotMatch", {
        message: `${SIGNATURE_NAME} is not the one that the trailer has with the secret key.`,
      });
    }
  }

  #takeSignature(value: string): void {
    if (!SIGNATURE.test(value)) throw malformed(`${SIGNATURE_NAME} is not 64 lower-case hex digits`);
    this.#signature = value;
  }

  #takeHeader(name: string, value: string): void {
    if (name !== this.#rules.announced) throw malformed(`'${name}' is not announced by x-amz-trailer`);
    if (this.#value !== undefined) throw malformed(`'${name}' comes twice`);
    const fault = this.#rules.valueFault(value);
    if (fault !== undefined) throw new S3Error("InvalidRequest", { message: fault });
    this.#value = value;
    this.#canonical += `${name}:${value}\n`;
  }
}

function malformed(what: string): S3Error {
  return new S3Error("MalformedTrailerError", {
    message: `The trailer of the aws-chunked body is malformed: ${what}.`,
  });
}
