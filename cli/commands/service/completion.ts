import { Argument } from "commander";
import type { Command } from "../../command.ts";
import { printText } from "../../output/output.ts";

/** What may stand behind some words of a command line. */
interface Place {
  /** The words, such as "job list"; empty for the first one. */
  readonly words: string;
  readonly next: readonly string[];
}

const SCRIPTS = { bash: bashScript, zsh: zshScript, fish: fishScript };
type Shell = keyof typeof SCRIPTS;

export function addCompletion(program: Command): void {
  program
    .command("completion")
    .summary("print what makes a shell complete commands and options")
    .description(
      "Prints a script by which a shell completes commands and options. It is made from this version's commands, so print it anew with each start of the shell, or after an upgrade.",
    )
    .addArgument(new Argument("<shell>", "which shell").choices(Object.keys(SCRIPTS)))
    .action((shell: Shell) => printText(SCRIPTS[shell](placesOf(program)).trimEnd()))
    .examples(
      'eval "$(sluice completion bash)"',
      'eval "$(sluice completion zsh)"',
      "sluice completion fish > ~/.config/fish/completions/sluice.fish",
    );
}

function placesOf(program: Command): Place[] {
  const places: Place[] = [{ words: "", next: program.commands.map((command) => command.name()) }];
  for (const command of program.commands) {
    places.push({
      words: command.name(),
      next: [...command.commands.map((one) => one.name()), ...optionsOf(command)],
    });
    for (const below of command.commands) {
      places.push({ words: `${command.name()} ${below.name()}`, next: optionsOf(below) });
    }
  }
  return places;
}

function optionsOf(command: Command): string[] {
  return ["--help", ...command.options.flatMap(({ long }) => (long ? [long] : []))];
}

/** Files complete behind everything else. */
function bashScript(places: readonly Place[]): string {
  const cases = places.map(({ words, next }) => `    '${words}') next='${next.join(" ")}' ;;`);
  const known = places.filter(({ words }) => words !== "").map(({ words }) => `'${words}'`);
  return `_sluice() {
  local place='' word next=''
  for word in "\${COMP_WORDS[@]:1:$((COMP_CWORD - 1))}"; do
    case "\${place:+$place }$word" in
    ${known.join("|")}) place="\${place:+$place }$word" ;;
    esac
  done
  case "$place" in
${cases.join("\n")}
  esac
  COMPREPLY=($(compgen -W "$next" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _sluice sluice
`;
}

/** zsh understands the script of bash, once it is told to. */
function zshScript(places: readonly Place[]): string {
  return `autoload -U +X compinit && compinit
autoload -U +X bashcompinit && bashcompinit
${bashScript(places)}`;
}

/** Where a command is due, files are not: `-f`. */
function fishScript(places: readonly Place[]): string {
  const lines = places.flatMap(({ words, next }) => {
    const commands = next.filter((word) => !word.startsWith("--"));
    const behind = fishCondition(words, commands);
    return next.map((word) =>
      word.startsWith("--")
        ? `complete -c sluice -n '${behind}' -l ${word.slice(2)}`
        : `complete -c sluice -n '${behind}' -f -a ${word}`,
    );
  });
  return `${lines.join("\n")}\n`;
}

/** What is seen on the line: the words, and none of the commands that may stand behind them. */
function fishCondition(words: string, commands: readonly string[]): string {
  if (words === "") return "__fish_use_subcommand";
  const seen = words.split(" ").map((word) => `__fish_seen_subcommand_from ${word}`);
  const unseen = commands.length > 0 ? [`not __fish_seen_subcommand_from ${commands.join(" ")}`] : [];
  return [...seen, ...unseen].join("; and ");
}
