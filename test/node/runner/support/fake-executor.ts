import type {
  Command,
  Executor,
  PrepareRequest,
  Run,
  Sandbox,
} from "../../../../runner/executors/executor.ts";

const DONE: Run = { kind: "exited", code: 0, log: "" };

/** An executor that does as the test says. */
export class FakeExecutor implements Executor {
  readonly name: string;
  /** Every request to make a sandbox ready, in order. */
  readonly prepared: PrepareRequest[] = [];
  /** Sandboxes that are there. */
  open = 0;
  /** Throws what is to go wrong, or waits. */
  onPrepare: (request: PrepareRequest) => Promise<void> | void = () => {};
  onRun: (command: Command) => Promise<Run | undefined> | Run | undefined = () => undefined;

  constructor(name = "fake") {
    this.name = name;
  }

  async prepare(request: PrepareRequest): Promise<Sandbox> {
    this.prepared.push(request);
    await this.onPrepare(request);
    this.open += 1;
    return {
      run: async (command) => (await this.onRun(command)) ?? DONE,
      close: async () => {
        this.open -= 1;
      },
    };
  }

  async close(): Promise<void> {}
}
