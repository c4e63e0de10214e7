/*
 * What an object does for others, by subject. Its contract is an interface of facets, each an interface of calls:
 *
 *   export interface PipelineApi { readonly jobs: JobCalls; readonly leases: LeaseCalls; … }
 *
 * Each facet is a table of functions in the object's `calls/`, typed by the contract alone (`Facet`). Each gets first what
 * the object hands to all of its calls. The object has one method for RPC, which looks a call up in its tables (`answer`).
 * Callers have a client that is typed by the contract (`clientOf`): `pipeline.jobs.list({ limit: 10 })` is one message. (A getter
 * of a facet would be one message on workerd, too, but is not understood by the plugin that tests run in.)
 *
 * What is not in a table can't be called, whatever else the object has. Arguments, answers and errors cross as in any
 * RPC: an argument may be a function.
 */

// biome-ignore lint/suspicious/noExplicitAny: a call may take and answer anything.
type Call = (...args: any[]) => Promise<unknown>;

/** The calls of one subject, as they are written: each gets `Reach` before what its caller gave. */
export type Facet<Calls, Reach> = {
  readonly [Name in keyof Calls]: Calls[Name] extends (...args: infer Args) => infer Answer
    ? (reach: Reach, ...args: Args) => Answer
    : never;
};

/** All facets of an object. */
export type Facets<Api, Reach> = { readonly [Name in keyof Api]: Facet<Api[Name], Reach> };

/** Which call of which facet, such as `jobs.list`. */
export type CallName<Api> = {
  [Name in keyof Api & string]: `${Name}.${keyof Api[Name] & string}`;
}[keyof Api & string];

/** What an object has for RPC. */
export interface Faceted {
  call(name: string, args: readonly unknown[]): Promise<unknown>;
}

/** Does a call of an object. Rejects if no facet has it. */
export async function answer<Api, Reach>(
  facets: Facets<Api, Reach>,
  { name, args, reach }: { name: string; args: readonly unknown[]; reach: Reach },
): Promise<unknown> {
  const [facet = "", call = ""] = name.split(".");
  const calls = own<object>(facets, facet);
  const found = calls && own<Call>(calls, call);
  if (!found) throw new TypeError(`the object has no call ${name}`);
  return await found(reach, ...args);
}

/** What was written into a table, and nothing of the table's prototype. */
function own<Value>(table: object, name: string): Value | undefined {
  return Object.hasOwn(table, name) ? (table as Record<string, Value>)[name] : undefined;
}

/** The calls of an object that is somewhere else. */
export function clientOf<Api>(object: Faceted): Api {
  return namesOf((facet) =>
    namesOf(
      (call) =>
        (...args: unknown[]) =>
          object.call(`${facet}.${call}`, args),
    ),
  ) as Api;
}

/** An object that has something under each name. A promise is asked for `then`, and this is none. */
function namesOf(get: (name: string) => unknown): unknown {
  return new Proxy(
    {},
    { get: (_, name) => (typeof name === "symbol" || name === "then" ? undefined : get(name)) },
  );
}
