import { CROCKFORD } from "../../../protocol/names.ts";

/*
 * The id of a commit is a ULID that says where the commit is: after the ten digits of its time, three of its generation, seven of
 * its number in it, and six that are random. So a branch finds its own commits by their ids without an index of them, which
 * each commit would write a row of. Ids grow as commits do, whatever the clock does.
 *
 * A commit that came out of an archive keeps the id that it has elsewhere, and the few generations and commits that three and
 * seven digits can't count have one that says nothing: those are indexed (`commits.elsewhere`).
 */

const TIME_DIGITS = 10;
const GEN_DIGITS = 3;
const SEQ_DIGITS = 7;
const RANDOM_DIGITS = 6;
const SEQ_AT = TIME_DIGITS + GEN_DIGITS;
const RANDOM_AT = SEQ_AT + SEQ_DIGITS;

/** Which commit of a branch it is. */
interface Place {
  readonly gen: number;
  readonly seq: number;
}

/** An id for the commit at a position, whose time is not before that of any earlier one. */
export function newCommitId({ gen, seq }: Place, createdAt: number): string {
  const random = crypto.getRandomValues(new Uint8Array(RANDOM_DIGITS));
  return [
    digitsOf(createdAt, TIME_DIGITS),
    digitsOf(gen, GEN_DIGITS),
    digitsOf(seq, SEQ_DIGITS),
    ...Array.from(random, (byte) => CROCKFORD.charAt(byte % 32)),
  ].join("");
}

/** Where the commit of an id is, if the id was made for this branch. Whether one is there, and has it, only its row tells. */
export function placeIn(id: string): Place {
  return { gen: numberOf(id.slice(TIME_DIGITS, SEQ_AT)), seq: numberOf(id.slice(SEQ_AT, RANDOM_AT)) };
}

/** The last digits of a number. */
function digitsOf(number: number, count: number): string {
  let [digits, rest] = ["", number];
  for (let n = 0; n < count; n++) {
    digits = CROCKFORD.charAt(rest % 32) + digits;
    rest = Math.floor(rest / 32);
  }
  return digits;
}

function numberOf(digits: string): number {
  let number = 0;
  for (const digit of digits) number = number * 32 + CROCKFORD.indexOf(digit);
  return number;
}
