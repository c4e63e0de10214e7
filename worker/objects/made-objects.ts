import { type CallName, clientOf, type Faceted } from "./facets.ts";

/**
 * Before an object is called for the first time, it is looked whether it was ever made, since the call alone leaves something
 * behind. On Cloudflare it decides where the object lives, for good: tools ask for a bucket before they make it, from wherever
 * they are. On workerd it leaves files on the disk: with a key that may only read, anybody could fill the disk by asking for
 * made-up names. If the object was not made, the call goes to one that nobody can make, and which answers like every object that
 * was not made.
 *
 * The embedded gateway looks for the object's file (`onDisk`), which is there before the object's first row is. So whoever has
 * made a bucket finds it, whatever the catalogue knows by then, and D1 is not asked.
 */

/** The object that is never made. No bucket and no pipeline can have this name. */
const NOBODY = ".nobody";

/** To be called before an object makes its tables. */
export function mustNotBeNobody(name: string | undefined): void {
  if (name === NOBODY) throw new Error("a call that makes an object is missing among its makers");
}

export interface Made<Call> {
  /** Whether an object was made; undefined: that can't be found out, and it is called. Absent: each is. */
  readonly isMade: ((name: string, call: Call) => Promise<boolean | undefined>) | undefined;
  /** The calls that make an object. */
  readonly makers: readonly Call[];
  /** What a call answers of every object that was not made, if nobody need be asked for that. */
  readonly unasked?: (call: Call, args: readonly unknown[]) => unknown;
  /** What one of these calls fails with, given what the platform says of it. Absent: that. */
  readonly unmade?: ((error: unknown) => Promise<unknown>) | undefined;
  /** The same, of any call. */
  readonly explain?: ((error: unknown) => Promise<unknown>) | undefined;
}

/** Names of objects that were found, at most; then they are looked for anew. */
const MAX_REMEMBERED = 10_000;

/** Looks for the files of objects, in a folder that the disk service serves. */
export function onDisk(
  objects: Pick<DurableObjectNamespace, "idFromName">,
  files: Fetcher,
): (name: string) => Promise<boolean> {
  return async (name) => {
    const { status } = await files.fetch(`http://disk/${objects.idFromName(name)}.sqlite`, {
      method: "HEAD",
    });
    // What could not be looked for may not be there.
    if (status !== 200 && status !== 404) {
      throw new Error(`the disk service could not look for the object ${name}: ${status}`);
    }
    return status === 200;
  };
}

/**
 * What objects of a class do, by their names; those that were never made all answer as one. `hint`: where an object is to be
 * that a call of this client makes. It means nothing for one that is there.
 */
export function madeObjects<Api>(
  objects: DurableObjectNamespace<undefined>,
  { isMade, makers, unasked, unmade, explain }: Made<CallName<Api>>,
): (name: string, hint?: DurableObjectNamespaceGetDurableObjectOptions) => Api {
  const found = new Set<string>();
  const remember = (name: string): void => {
    if (found.size === MAX_REMEMBERED) found.clear();
    found.add(name);
  };
  /** Whether it is known that there is no such object. */
  const isMissing = async (name: string, call: CallName<Api>): Promise<boolean> => {
    if (!isMade || found.has(name)) return false;
    if ((await isMade(name, call)) === false) return true;
    remember(name);
    return false;
  };
  const asNobody = async (call: CallName<Api>, args: readonly unknown[]): Promise<unknown> =>
    unasked?.(call, args) ?? (await facetsOf(objects.getByName(NOBODY)).call(call, args));
  const make = async (own: Faceted, { name, call, args }: MakingCall): Promise<unknown> => {
    try {
      const answer = await own.call(call, args);
      if (isDone(answer)) remember(name);
      return answer;
    } catch (error) {
      throw unmade ? await unmade(error) : error;
    }
  };
  return (name, hint) => {
    const own = facetsOf(objects.getByName(name, hint));
    return clientOf<Api>({
      async call(called, args) {
        const call = called as CallName<Api>;
        try {
          if (makers.includes(call)) return await make(own, { name, call, args });
          return await ((await isMissing(name, call)) ? asNobody(call, args) : own.call(call, args));
        } catch (error) {
          throw explain ? await explain(error) : error;
        }
      },
    });
  };
}

interface MakingCall {
  readonly name: string;
  readonly call: string;
  readonly args: readonly unknown[];
}

function facetsOf(object: DurableObjectStub<undefined>): Faceted {
  return object as unknown as Faceted;
}

function isDone(answer: unknown): boolean {
  return typeof answer === "object" && answer !== null && "ok" in answer && answer.ok === true;
}
