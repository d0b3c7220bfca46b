package journal

// Headers with which a client asks for the trace of a write, and in which the server returns it:
// JSON, compressed with gzip, in base64.
const (
	ExplainHeader = "Gantry-Explain" // any value
	TraceHeader   = "Gantry-Story"
)

// ExplainVerb is the verb that a user needs for the written resource, besides that of the write, to
// get its trace: the trace names webhooks, policies and roles, and shows values that a later step
// removed.
const ExplainVerb = "explain"

// Names of the steps of a write, in their order.
const (
	StepAuthentication = "authentication"
	StepImpersonation  = "impersonation"
	StepAuthorization  = "authorization"
	// the body is decoded; for a patch: applied to the stored object
	StepReading    = "reading and defaulting"
	StepMutation   = "mutation"
	StepValidation = "preparation and validation" // the strategy of the kind
	StepAdmission  = "admission"                  // validating admission
	StepStorage    = "storage"
)

// RequestTrace is what each step did to one write.
type RequestTrace struct {
	Verb        string   `json:"verb,omitempty"`
	Resource    string   `json:"resource,omitempty"` // deployments.apps
	Subresource string   `json:"subresource,omitempty"`
	Namespace   string   `json:"namespace,omitempty"`
	Name        string   `json:"name,omitempty"`
	User        string   `json:"user,omitempty"`
	Groups      []string `json:"groups,omitempty"`
	DryRun      bool     `json:"dryRun,omitempty"`
	Code        int      `json:"code"`               // HTTP status code
	Revision    int64    `json:"revision,omitempty"` // etcd revision of the write
	Took        Took     `json:"took"`
	Steps       []Step   `json:"steps,omitempty"`
	Refusal     string   `json:"refusal,omitempty"`  // the server's message, filled in by the client
	Reason      string   `json:"reason,omitempty"`   // the reason of that answer
	Withheld    string   `json:"withheld,omitempty"` // why there are no steps
}

// Step is one step of a write.
type Step struct {
	Name    string   `json:"step"`
	By      string   `json:"by,omitempty"` // plugin, webhook or policy
	At      Took     `json:"at"`           // start, relative to the request's arrival
	Took    Took     `json:"took"`
	Message string   `json:"says,omitempty"`
	Refused bool     `json:"refused,omitempty"`
	Error   string   `json:"error,omitempty"`
	Changes []Change `json:"changes,omitempty"`
	Left    int      `json:"left,omitempty"` // changes omitted for length
}
