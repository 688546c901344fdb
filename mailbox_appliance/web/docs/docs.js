// Show the OpenAPI document. The page cannot send requests: it never has a token that could leak.

const dark = matchMedia("(prefers-color-scheme: dark)");
const followTheme = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", followTheme);
followTheme();

const nothing = () => () => null;

fetch("/api/v1/openapi.json")
  .then((answer) => answer.json())
  .then((description) =>
    window.SwaggerUIBundle({
      spec: description,
      domNode: document.getElementById("reference"),
      deepLinking: true,
      docExpansion: "list",
      defaultModelsExpandDepth: 0,
      filter: true,
      supportedSubmitMethods: [],
      tryItOutEnabled: false,
      validatorUrl: null,
      plugins: [() => ({ wrapComponents: { authorizeBtn: nothing, authorizeOperationBtn: nothing } })],
    }),
  );
