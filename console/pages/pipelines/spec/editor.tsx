import {
  autocompletion,
  type Completion,
  type CompletionContext,
  type CompletionResult,
  closeBrackets,
  closeBracketsKeymap,
  completionKeymap,
  pickedCompletion,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { json } from "@codemirror/lang-json";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { Compartment, EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { classHighlighter } from "@lezer/highlight";
import { useEffect, useImperativeHandle, useRef } from "react";
import type { Issue } from "../../../../protocol/errors.ts";
import type { RepoList } from "../../../../protocol/repos.ts";
import styles from "../../../style/editor.css" with { type: "text" };
import { type Language, languageOf } from "./language.ts";
import { placeAt } from "./place.ts";
import { inputOffers, type Offer, offersAt } from "./schema.ts";
import { finderIn } from "./written.ts";
import { inYaml, namePlaceAt, valuePlaceAt } from "./yaml-place.ts";

/** What a page does with the editor beside what it shows. */
export interface Editing {
  /** Puts the cursor where a problem is. */
  goTo(issue: Issue): void;
}

interface SpecEditorProps {
  /** What it begins with. */
  readonly begin: string;
  /** What is wrong, each at its JSON path. Undefined: nobody has looked. */
  readonly issues: readonly Issue[];
  /** What inputs may read. */
  readonly repos: RepoList["repos"];
  readonly ref: React.Ref<Editing>;
  change(text: string): void;
}

/** An editor for a specification in JSON or YAML: it knows the fields, and marks what is wrong where it is. */
export default function SpecEditor({ begin, issues, repos, change, ref }: SpecEditorProps) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(undefined);
  const latest = useRef({ change, repos });
  useEffect(() => {
    latest.current = { change, repos };
  });

  useEffect(() => {
    if (!host.current) return;
    // Its styles are a sheet of the shadow's own: the page's policy lets no style in that a script writes into the page.
    const root = host.current.shadowRoot ?? shadowOf(host.current);
    const parent = document.createElement("div");
    root.replaceChildren(parent);
    const editor = new EditorView({
      ...{ root, parent },
      state: EditorState.create({ doc: begin, extensions: extensionsFor(begin, () => latest.current) }),
    });
    view.current = editor;
    return () => editor.destroy();
  }, [begin]);

  useEffect(() => {
    const editor = view.current;
    if (!editor) return;
    const placeOf = finderIn(editor.state.doc.toString());
    const marks = issues.map((issue) => {
      return { ...placeOf(issue), severity: "error" as const, message: issue.message };
    });
    editor.dispatch(setDiagnostics(editor.state, marks));
  }, [issues]);

  useImperativeHandle(ref, () => ({
    goTo(issue) {
      const editor = view.current;
      if (!editor) return;
      const { from } = finderIn(editor.state.doc.toString())(issue);
      editor.dispatch({ selection: { anchor: from }, scrollIntoView: true });
      editor.focus();
    },
  }));

  return <div ref={host} className="editor" />;
}

/** The editor puts its own styles before these, which count where both say something. */
function shadowOf(host: HTMLElement): ShadowRoot {
  const root = host.attachShadow({ mode: "open" });
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(styles);
  root.adoptedStyleSheets = [sheet];
  return root;
}

/** What depends on the language, which may change as somebody writes. */
function inLanguage(language: Language) {
  return [
    language === "json" ? json() : yaml(),
    EditorView.contentAttributes.of({
      "aria-label": `Specification, in ${language.toUpperCase()}`,
      spellcheck: "false",
    }),
  ];
}

function extensionsFor(begin: string, latest: () => Pick<SpecEditorProps, "change" | "repos">) {
  const language = new Compartment();
  return [
    lineNumbers(),
    lintGutter(),
    history(),
    drawSelection(),
    indentOnInput(),
    bracketMatching(),
    closeBrackets(),
    highlightActiveLine(),
    language.of(inLanguage(languageOf(begin))),
    EditorState.transactionExtender.of(({ docChanged, startState, newDoc }) => {
      if (!docChanged) return null;
      const [before, after] = [startState.doc, newDoc].map((doc) => languageOf(doc.toString()));
      return before === after || !after ? null : { effects: language.reconfigure(inLanguage(after)) };
    }),
    syntaxHighlighting(classHighlighter),
    autocompletion({
      override: [(context) => complete(context, latest().repos)],
      icons: false,
      activateOnCompletion: ({ type }) => type === OPENING,
    }),
    // Tab goes on to the next element of the page, as everywhere.
    keymap.of([
      ...closeBracketsKeymap,
      ...completionKeymap,
      ...defaultKeymap,
      ...historyKeymap,
      ...lintKeymap,
    ]),
    EditorView.updateListener.of(({ docChanged, state }) => {
      if (docChanged) latest().change(state.doc.toString());
    }),
    EditorView.lineWrapping,
  ];
}

/** Offers what the schema knows, and for an input the repos and branches that are there. */
function complete(
  { state, pos, explicit }: CompletionContext,
  repos: RepoList["repos"],
): CompletionResult | null {
  const text = state.doc.toString();
  const isJson = languageOf(text) === "json";
  // A word of YAML on a line of its own may be a value, or become a name.
  const places = isJson ? [placeAt(text, pos)] : [namePlaceAt(text, pos), valuePlaceAt(text, pos)];
  const [found] = places.flatMap((place) => {
    const known = place && (inputOffers(place, repos) ?? offersAt(place));
    return known && known.length > 0 ? [{ place, known }] : [];
  });
  if (!found) return null;
  const { place, known } = found;
  const { from, to } = place;
  // Nothing is offered unasked where nothing was written, but behind what opens something.
  if (from === to && !explicit && !/[:{[,]\s*$|- +$/.test(text.slice(0, pos))) return null;
  const [before, written] = [text.slice(0, from), text.slice(from, to)];
  const offers = isJson ? known : known.map((offer) => inYaml(offer, { before, written }));
  return {
    ...{ from, to },
    options: offers.map((offer) => completionOf(offer, { isQuoted: written.startsWith('"') })),
    validFor: /^["']?[\w$]*["']?$/,
  };
}

/** The type of what has more inside, which is offered next. */
const OPENING = "opening";

function completionOf(
  { label, detail, info, text, blank = "", isRequired }: Offer,
  { isQuoted }: { readonly isQuoted: boolean },
): Completion {
  const cursor = text.indexOf("^");
  const written = text.replace("^", "");
  return {
    // It is compared with what is written, which has its quote already.
    label: isQuoted && !label.startsWith('"') ? `"${label}"` : label,
    displayLabel: label,
    detail,
    ...(info !== undefined && { info }),
    ...(/^[{[]/.test(blank) && { type: OPENING }),
    boost: isRequired ? 1 : 0,
    apply(view, picked, from, to) {
      view.dispatch({
        changes: { from, to, insert: written },
        selection: { anchor: from + (cursor < 0 ? written.length : cursor) },
        userEvent: "input.complete",
        // What is offered next is asked for by this.
        annotations: pickedCompletion.of(picked),
      });
    },
  };
}
