import type { ReactNode } from "react";
import { CliLine, type CommandLine } from "../../../parts/cli-line.tsx";

interface SettingProps {
  readonly title: string;
  /** The command that sets the same. */
  readonly cli: CommandLine;
  readonly children: ReactNode;
}

/** One thing that a branch is set to. */
export function Setting({ title, cli, children }: SettingProps) {
  return (
    <section aria-label={title} className="setting">
      <h2>{title}</h2>
      {children}
      <CliLine line={cli} />
    </section>
  );
}
