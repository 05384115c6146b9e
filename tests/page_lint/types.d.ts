// What the API answers (docs/page-api.schema.json), and what is said of it in JSDoc: names that every
// module knows. Only the type checker reads this.

interface Status {
  version: string; store: string; calls: number; newest_seq: number; pending: number; rejected: number;
  live: boolean; live_text: boolean; lost: number | null; websockets: number | null; now: string;
  store_option: string; proxy_url: string | null; asks_for_key: boolean;
}

interface Address { path: string[]; query: Record<string, string> }

/** `python -m tests.docs.facts` writes its members. A call that ended and is not recorded yet has no `seq`. */
interface Row {
  request_id: string | null;
  model: string | null;
  span_id: string;
  trace_id: string;
  parent_span_id: string | null;
  name: string;
  kind: string | null;
  api: string | null;
  upstream: string | null;
  client: string | null;
  start_time: string;
  end_time: string;
  duration_ms: number | null;
  ttft_ms: number | null;
  status: string;
  outcome: string;
  http_status: number | null;
  error_type: string | null;
  finish_reason: string | null;
  streamed: boolean | null;
  retry: number | null;
  anomalies: string[];
  prompt_tokens: number | null;
  completion_tokens: number | null;
  total_tokens: number | null;
  cached_tokens: number | null;
  cost_usd: number | null;
  input_usd: number | null;
  saved_usd: number | null;
  cost_basis: string | null;
  cost_gap: string | null;
  session: string | null;
  user: string | null;
  launch: string | null;
  launch_label: string | null;
  what: string | null;
  preview: string | null;
  step: string | null;
  purpose: string | null;
  new_messages: number | null;
  tools: string[];
  tool_calls: number | null;
  conversation: number | null;
  run: number | null;
  turn: number | null;
  link_rule: string | null;
  seq: number | null;
  size_bytes: number;
  recorded_time: string;
  state: string;
  attempts: number;
  next_try_time: string | null;
  last_error: string | null;
}

interface Open {
  open: true; span_id: string; trace_id: string; model: string | null; what?: string | null; api: string | null; upstream: string | null; client: string | null;
  start_time: string; duration_ms: number; http_status: number | null; chunks: number | null; chars?: number | null; ttft_ms?: number | null;
  /** by this page's own clock, so that the time goes on */
  received?: number;
}

interface Part { kind: string; chars: number; preview: string; own: string | null; url: string | null; image: { type: string | null; bytes: number | null; digest: string | null; left_out: string | null } | null }
interface ToolCall { id: string | null; name: string | null; arguments: string | null; chars: number }
interface Head {
  index: number; role: string | null; name: string | null; tool_call_id: string | null; chars: number; digest: string;
  step: string | null; failed: boolean | null; error: string | null; parts: Part[]; tool_calls: ToolCall[];
}

interface CallDetail {
  call: Row;
  conversation: {
    number: number; turn: number | null; run: number | null; link_rule: string | null; link: string | null;
    calls: number; position: number; previous: string | null; next: string | null; goes_on_from?: string | null; run_place: number | null; runs: number;
  } | null;
  timing: {
    ttft_ms: number | null; duration_ms: number | null; longest_pause_ms: number | null;
    longest_pause_chunk: number | null; first_content_ms?: number | null; mean_pause_ms?: number | null; chunks: number | null; request_bytes: number | null; response_bytes: number | null;
  };
  parameters: Record<string, unknown>; metadata: Record<string, unknown>;
  limits: { name: string; left: number; remaining: number | null; limit: number | null; reset: string | null }[];
  error: { type: string | null; message: string | null } | null;
  cost: { total: number | null; prompt: number | null; completion: number | null; source: string | null; basis: string | null; list_date: string | null; list_is_old: boolean } | null;
  tokens: { prompt: number | null; cached: number | null; written: number | null; completion: number | null; reasoning: number | null; total: number | null };
  notes: string[];
  tools: { name: string | null; description: string | null; chars: number }[];
  asked: string | null; messages: Head[]; answer: Head[]; new_from: number;
  unchanged: { messages: number; chars: number }; system_changed: boolean;
  raw: Record<string, number | null>;
}

interface Operation {
  op: "same" | "added" | "removed" | "changed"; index: number | null; with_index: number | null; role: string | null; count: number;
  words: ["same" | "added" | "removed", string][] | null;
}
