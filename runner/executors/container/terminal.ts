import type { Socket } from "node:net";
import type { Container } from "dockerode";
import { ask, type Engine } from "./engine/engine.ts";

export interface ScreenOptions {
  readonly engine: Engine;
  /** Started, with a terminal of its own. */
  readonly container: Container;
  readonly input: Socket;
  readonly output: Socket;
}

/** A container's terminal, shown on that of this process. */
export interface Screen {
  /** Gives the terminal back as it was. */
  close(): void;
}

/**
 * Joins a container's terminal with that of this process. Ours is raw meanwhile: each key, Ctrl-C too, goes to the
 * container's, which knows what it means there.
 */
export function showOnTerminal({ engine, container, input, output }: ScreenOptions): Screen {
  const { stdin, stdout } = process;
  // The container may just be ending. Its terminal then needs no size.
  const resize = () =>
    void ask(engine, () => container.resize({ h: stdout.rows, w: stdout.columns })).catch(() => undefined);
  const type = (bytes: Buffer) => void input.write(bytes);
  const show = (bytes: Buffer) => void stdout.write(bytes);
  stdin.setRawMode?.(true);
  stdin.on("data", type).resume();
  output.on("data", show);
  stdout.on("resize", resize);
  resize();
  return {
    close() {
      stdout.off("resize", resize);
      stdin.off("data", type).pause();
      stdin.setRawMode?.(false);
    },
  };
}
