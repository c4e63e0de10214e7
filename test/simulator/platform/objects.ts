import { copied } from "./copy.ts";
import type { Databases } from "./database.ts";
import type { Faults } from "./faults.ts";
import { SimulatedStorage } from "./storage.ts";
import { type Actor, actorNow, runAs, type World } from "./world.ts";

/** How long a message is on its way at most; milliseconds. */
const ON_THE_WAY_MS = 10;
/** How often the platform tries an alarm again that failed, and how long it waits first. */
const ALARM_RETRIES = 6;
const FIRST_ALARM_RETRY_MS = 2_000;

/** What a class of objects has to have. */
interface ObjectClass {
  new (
    ctx: DurableObjectState,
    env: never,
  ): { call(name: string, args: readonly unknown[]): Promise<unknown>; alarm?(): Promise<void> };
}

type Inside<T> = (state: DurableObjectState, instance: { alarm?(): unknown }) => T | Promise<T>;

interface NamespaceOptions {
  readonly world: World;
  readonly faults: Faults;
  readonly databases: Databases;
  readonly type: () => ObjectClass;
  readonly env: () => unknown;
}

/** The objects of one class, by their names. */
export class SimulatedNamespace {
  readonly #options: NamespaceOptions;
  readonly #objects = new Map<string, SimulatedObject>();

  constructor(options: NamespaceOptions) {
    this.#options = options;
  }

  /** A stub: its calls arrive in their order. */
  getByName(name: string): { call(call: string, args: readonly unknown[]): Promise<unknown> } {
    const object = this.object(name);
    const lane = {};
    return { call: (call, args) => object.called(call, { args, lane }) };
  }

  object(name: string): SimulatedObject {
    const known = this.#objects.get(name);
    if (known) return known;
    const made = new SimulatedObject(name, this.#options);
    this.#objects.set(name, made);
    return made;
  }

  all(): SimulatedObject[] {
    return [...this.#objects.values()];
  }
}

/** One object: what it has on its disk, and now and then an instance. */
export class SimulatedObject {
  readonly name: string;
  readonly storage: SimulatedStorage;
  readonly #options: NamespaceOptions;
  #instance: Instance | undefined;
  /** How often the alarm that is due was tried. */
  #alarmTries = 0;

  constructor(name: string, options: NamespaceOptions) {
    this.name = name;
    this.#options = options;
    const { world, faults, databases } = options;
    this.storage = new SimulatedStorage({
      world,
      databases,
      broken: () => this.end("the write to its disk failed"),
      alarmChanged: () => {
        this.#alarmTries = 0;
        this.#armAlarm();
      },
      failsToFlush: () => faults.failsToFlush(),
    });
  }

  /** Whether it is in memory. */
  get isUp(): boolean {
    return this.#instance !== undefined;
  }

  /** Takes the instance away, with what it has only in memory. The next call, or the alarm, makes another one. */
  end(why: string): void {
    const error = new ResetError(`the object '${this.name}' was reset: ${why}`);
    const instance = this.#instance;
    this.#instance = undefined;
    this.storage.crash();
    instance?.end(error);
  }

  /** Does something where the object is, as one call of it. */
  async inside<T>(work: Inside<T>): Promise<T> {
    return await this.stub().inside(work);
  }

  /** The same several times, by one stub. */
  stub(): { inside<T>(work: Inside<T>): Promise<T> } {
    const lane = {};
    return {
      inside: (work) =>
        this.#reached(
          { name: "inside", lane },
          async ({ state, object }) => await work(state, object as { alarm?(): unknown }),
        ),
    };
  }

  /** A call by whoever runs now. */
  async called(name: string, { args, lane }: { args: readonly unknown[]; lane: object }): Promise<unknown> {
    const from = callerNow();
    const sent = copied(args, (work) => calledBack(from, work)) as readonly unknown[];
    const answer = await this.#reached({ name, lane }, ({ object }) => object.call(name, sent));
    return copied(answer, (work) => work);
  }

  /** A message to the object, and one back. */
  async #reached<T>(
    { name, lane }: { name: string; lane: object },
    work: (instance: Instance) => Promise<T>,
  ): Promise<T> {
    const { world, faults } = this.#options;
    const from = callerNow();
    await from.flushed();
    return await new Promise((resolve, reject) => {
      const onTheWay = () => world.random.next() * ON_THE_WAY_MS;
      const lost = () => reject(new Error("Network connection lost."));
      const answer = (settle: () => void) =>
        world.after(onTheWay(), () => {
          if (from.isAlive) (faults.losesAnswer(this.name, name) ? lost : settle)();
        });
      const arrive = () => {
        if (faults.losesCall(this.name, name)) answer(lost);
        else {
          this.#work(work).then(
            (value) => answer(() => resolve(value)),
            (error) => answer(() => reject(error)),
          );
        }
      };
      world.after(onTheWay(), arrive, lane);
    });
  }

  /** Lets an instance do something, and hands out what comes of it when that is durable. */
  async #work<T>(work: (instance: Instance) => Promise<T>): Promise<T> {
    const instance = this.#up();
    return await instance.until(async () => {
      const value = await runAs(instance, () => work(instance));
      await this.storage.flushed();
      return value;
    });
  }

  #up(): Instance {
    this.#instance ??= new Instance(this.#options, {
      name: this.name,
      storage: this.storage,
      end: (why) => this.end(why),
    });
    return this.#instance;
  }

  #armAlarm(): void {
    const at = this.storage.durableAlarm;
    if (at === null) return;
    const { world, faults } = this.#options;
    world.after(at - world.clock + faults.alarmLateMs(), () => {
      // The clock was set back meanwhile: no alarm rings before its time.
      if (world.clock < at - 1 && this.storage.durableAlarm === at) this.#armAlarm();
      else this.#ring(at);
    });
  }

  #ring(at: number): void {
    if (this.storage.durableAlarm !== at) return;
    const tries = this.#alarmTries;
    const { world } = this.#options;
    this.storage.alarmRings();
    this.#work(async ({ object }) => await object.alarm?.()).then(
      () => this.storage.alarmDone(at),
      (error) => {
        if (this.storage.durableAlarm !== at) return;
        // A handler that could not come to its end, since its instance ended, has not failed.
        if (!(error instanceof ResetError)) this.#alarmTries++;
        if (this.#alarmTries > ALARM_RETRIES) this.storage.alarmDone(at);
        else world.after(FIRST_ALARM_RETRY_MS * 2 ** tries, () => this.#ring(at));
      },
    );
  }
}

/** What calls under way hear whose instance ended. */
class ResetError extends Error {}

/** An object in memory. */
class Instance implements Actor {
  readonly world: World;
  readonly object: InstanceType<ObjectClass>;
  readonly state: DurableObjectState;
  isAlive = true;
  readonly #ended = Promise.withResolvers<never>();
  readonly #storage: SimulatedStorage;

  constructor(
    { world, type, env }: NamespaceOptions,
    { name, storage, end }: { name: string; storage: SimulatedStorage; end: (why: string) => void },
  ) {
    this.world = world;
    this.#storage = storage;
    this.#ended.promise.catch(() => {});
    const state = {
      id: { name, toString: () => name },
      storage: storage.open(() => this.#check()),
      exports: world.entrypoints,
      waitUntil: (work: Promise<unknown>) => void work.catch(() => {}),
      abort: (why: string) => {
        end(why);
        this.#check();
      },
    };
    this.state = state as unknown as DurableObjectState;
    const Class = type();
    this.object = runAs(this, () => new Class(this.state, env() as never));
  }

  flushed(): Promise<void> {
    return this.#storage.flushed();
  }

  /** What comes of some work, or the error with which the instance ends before. */
  until<T>(work: () => Promise<T>): Promise<T> {
    return Promise.race([work(), this.#ended.promise]);
  }

  end(error: Error): void {
    this.isAlive = false;
    this.#ended.reject(error);
  }

  #check(): void {
    if (!this.isAlive) throw new Error("the instance has ended");
  }
}

/** A function that crossed to another object: to call it is a message back. */
function calledBack(owner: Actor, work: (...args: unknown[]) => unknown) {
  return async (...args: unknown[]): Promise<unknown> => {
    const from = callerNow();
    await from.flushed();
    return await new Promise((resolve, reject) => {
      const { world } = owner;
      const onTheWay = () => world.random.next() * ON_THE_WAY_MS;
      world.after(onTheWay(), () => {
        if (!owner.isAlive) return;
        const done = (settle: () => void) => world.after(onTheWay(), () => from.isAlive && settle());
        runAs(owner, async () => await work(...args)).then(
          (value) => done(() => resolve(value)),
          (error) => done(() => reject(error)),
        );
      });
    });
  };
}

function callerNow(): Actor {
  const actor = actorNow();
  if (!actor) throw new Error("only an actor of the simulation can call an object");
  return actor;
}
