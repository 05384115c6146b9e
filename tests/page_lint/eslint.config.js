// What the page must never do stands first: its policy would stop it in the browser, this stops it before.
const forbidden = [
  ["MemberExpression[property.name=/^(inner|outer)HTML$/]", "Nothing is parsed as HTML: build nodes (dom.js)."],
  ["CallExpression[callee.property.name=/^(insertAdjacentHTML|write|writeln|createContextualFragment|parseFromString)$/][callee.object.name=/^(document|range|parser)$/]", "Nothing is parsed as HTML: build nodes (dom.js)."],
  ["NewExpression[callee.name=/^(Function|Worker)$/]", "No code from text."],
  ["CallExpression[callee.property.name='setAttribute'][arguments.0.value=/^(on|style$)/]", "The policy refuses it: addEventListener, style.setProperty."],
  ["TemplateElement[value.raw=/\\n/]", "A line of a text may look like a comment, and those are left out (proxy/page/joining.py)."],
  ["ImportExpression, MetaProperty", "All modules are one script (proxy/page/joining.py)."],
  ["Program > ExportNamedDeclaration > VariableDeclaration[declarations.length>1]", "One name for each export (proxy/page/joining.py)."],
  ["AwaitExpression:not(:function AwaitExpression)", "A module is a function that does not wait (proxy/page/joining.py)."],
  ["Literal[value=/^(https?:|wss?:|\\u002f\\u002f)/]:not([value='http://www.w3.org/2000/svg'])", "The page asks no other host."],
];

export default [
  {
    files: ["**/*.js"],
    languageOptions: { ecmaVersion: 2024, sourceType: "module" },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      "array-callback-return": "error",
      eqeqeq: ["error", "always", { null: "ignore" }],
      "max-lines": ["error", { max: 400, skipComments: true, skipBlankLines: true }],
      "no-console": "error",
      "no-constant-binary-expression": "error",
      "no-dupe-keys": "error",
      "no-eval": "error",
      "no-multi-str": "error",
      "no-implied-eval": "error",
      "no-restricted-syntax": ["error", ...forbidden.map(([selector, message]) => ({ selector, message }))],
      "no-script-url": "error",
      "no-self-compare": "error",
      "no-unreachable": "error",
      "no-unused-vars": ["error", { argsIgnorePattern: "^_", caughtErrors: "none" }],
      "no-use-before-define": ["error", { functions: false, classes: false, variables: false }],
      "no-var": "error",
      "prefer-const": "error",
      radix: "error",
    },
  },
];
