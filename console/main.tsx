import "./style/base.css";
import "./style/parts.css";
import "./style/pages.css";
import "./style/repos.css";
import "./style/pipelines.css";
import "./style/graph.css";
import "./style/admin.css";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Console } from "./console.tsx";

const root = document.getElementById("console");
if (!root) throw new Error("the page has no element for the console");
createRoot(root).render(
  <StrictMode>
    <Console />
  </StrictMode>,
);
