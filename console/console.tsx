import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { Suspense, useCallback, useEffect, useMemo, useState } from "react";
import { Link, Route, Router, Switch } from "wouter";
import type { PipelineGraph } from "../protocol/pipelines.ts";
import { Gateway } from "./gateway/gateway.ts";
import { keptSession } from "./gateway/kept-session.ts";
import { SessionContext, useLive } from "./gateway/session.ts";
import { endAtGateway, forget, hearTabs, type SignedIn, signIn } from "./gateway/sign-in.ts";
import type { Entered } from "./gateway/signer.ts";
import { Shortcuts } from "./pages/find/shortcuts.tsx";
import { Login } from "./pages/login.tsx";
import { Now } from "./pages/now.tsx";
import { Loading, lazyPage } from "./parts/lazy-page.tsx";
import { Page } from "./parts/page.tsx";
import { Broken, Shell } from "./parts/shell.tsx";

const PipelinesPage = lazyPage(() => import("./pages/pipelines/pipelines.tsx"));
const PipelinePage = lazyPage(() => import("./pages/pipelines/pipeline.tsx"));
const SpecificationPage = lazyPage(() => import("./pages/pipelines/specification.tsx"));
const GraphPage = lazyPage(() => import("./pages/graph/graph.tsx"));
const JobsPage = lazyPage(() => import("./pages/jobs/jobs.tsx"));
const JobPage = lazyPage(() => import("./pages/jobs/job.tsx"));
const ReposPages = lazyPage(() => import("./pages/repos/repos.tsx"));
const KeysPage = lazyPage(() => import("./pages/keys.tsx"));
const NodesPage = lazyPage(() => import("./pages/nodes.tsx"));

interface LoggedIn extends SignedIn {
  readonly gateway: Gateway;
  readonly client: QueryClient;
}

const OVER = "The session has ended: its 12 hours are over.";
const ENDED_ELSEWHERE = "Logged out in another tab.";

/**
 * The whole console. Without a session every page is the login, under its own address, so that a link to any page survives it.
 * With the session go all answers that it was given, in all tabs.
 */
export function Console() {
  const [loggedIn, setLoggedIn] = useState<LoggedIn>();
  const [isSought, setSought] = useState(true);
  const [farewell, setFarewell] = useState<string>();
  const take = useCallback((signedIn: SignedIn): void => {
    setLoggedIn({ ...signedIn, gateway: new Gateway(signedIn.signer), client: new QueryClient() });
    setFarewell(undefined);
  }, []);
  const resume = useCallback(async (): Promise<void> => {
    const signer = await keptSession();
    if (signer) take({ signer, isKept: true });
    setSought(false);
  }, [take]);
  useEffect(() => void resume(), [resume]);
  const begin = useCallback(async (entered: Entered) => take(await signIn(entered)), [take]);

  const leave = useCallback(
    (why?: string): void => {
      loggedIn?.gateway.end();
      loggedIn?.client.clear();
      setLoggedIn(undefined);
      setFarewell(why);
    },
    [loggedIn],
  );
  const end = useCallback(
    async (why?: string): Promise<void> => {
      if (!loggedIn) return;
      leave(why);
      await forget(loggedIn.signer, why);
      if (why === undefined) setFarewell(await endAtGateway(loggedIn.signer));
    },
    [loggedIn, leave],
  );
  useEffect(
    () =>
      hearTabs((told) => {
        if ("began" in told) {
          if (!loggedIn) void resume();
        } else if (told.ended === loggedIn?.signer.id) leave(told.why ?? ENDED_ELSEWHERE);
      }),
    [loggedIn, resume, leave],
  );
  const endsAt = loggedIn?.signer.endsAt;
  useEffect(() => {
    if (endsAt === undefined) return;
    const timer = setTimeout(() => void end(OVER), endsAt - Date.now());
    return () => clearTimeout(timer);
  }, [endsAt, end]);

  const session = useMemo(
    () => loggedIn && { ...loggedIn, end: (why?: string) => void end(why) },
    [loggedIn, end],
  );
  if (!loggedIn || !session) return isSought ? null : <Login farewell={farewell} begin={begin} />;
  return (
    <SessionContext value={session}>
      <QueryClientProvider client={loggedIn.client}>
        <Router base="/console">
          <Shell tools={<Shortcuts />}>
            <Broken>
              <Suspense fallback={<Loading />}>
                <Switch>
                  <Route path="/" component={Now} />
                  <Route path="/jobs" component={JobsPage} />
                  <Route path="/jobs/:job">{({ job }) => <JobPage key={job} job={job} />}</Route>
                  <Route path="/repos/*?" component={ReposPages} />
                  <Route path="/pipelines" component={PipelinesPage} />
                  <Route path="/new/pipeline">
                    <SpecificationPage />
                  </Route>
                  <Route path="/pipelines/:name">
                    {({ name }) => <PipelinePage key={name} name={name} />}
                  </Route>
                  <Route path="/pipelines/:name/edit">
                    {({ name }) => <SpecificationPage key={name} name={name} />}
                  </Route>
                  <Route path="/graph" component={GraphRoute} />
                  <Route path="/nodes" component={NodesPage} />
                  <Route path="/keys" component={KeysPage} />
                  <Route>
                    <Page title="There is no such page">
                      <p>
                        The address names no page of the console. <Link href="/">Now</Link> shows what runs.
                      </p>
                    </Page>
                  </Route>
                </Switch>
              </Suspense>
            </Broken>
          </Shell>
        </Router>
      </QueryClientProvider>
    </SessionContext>
  );
}

/** What places and draws the graph is loaded while the gateway is asked what to draw: neither waits for the other. */
function GraphRoute() {
  const live = useLive<PipelineGraph>("/graph");
  return (
    <Suspense fallback={<Loading />}>
      <GraphPage live={live} />
    </Suspense>
  );
}
