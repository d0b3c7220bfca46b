package journal

// Headers by which a client asks how a write went, and by which the server tells. The story is
// JSON, compressed with gzip, in base64.
const (
	ExplainHeader = "Gantry-Explain" // any value
	TraceHeader   = "Gantry-Story"
)

// ExplainVerb is what a user must be allowed to do with the resource written, beside the write
// itself, to be told how it went: the story names webhooks, policies and roles, and shows values
// that a later step took out again.
const ExplainVerb = "explain"

// Names of the steps of a write, in the order they come.
const (
	StepAuthentication = "authentication"
	StepImpersonation  = "impersonation"
	StepAuthorization  = "authorization"
	// the body becomes an object; of a patch: the stored object with the patch
	StepReading    = "reading and defaulting"
	StepMutation   = "mutation"
	StepValidation = "preparation and validation" // the kind's own rules
	StepAdmission  = "admission"                  // opinions that may refuse and not change
	StepStorage    = "storage"
)

// RequestTrace is how one write went, step by step.
type RequestTrace struct {
	Verb        string   `json:"verb,omitempty"`
	Resource    string   `json:"resource,omitempty"` // deployments.apps
	Subresource string   `json:"subresource,omitempty"`
	Namespace   string   `json:"namespace,omitempty"`
	Name        string   `json:"name,omitempty"`
	User        string   `json:"user,omitempty"`
	Groups      []string `json:"groups,omitempty"`
	DryRun      bool     `json:"dryRun,omitempty"`
	Code        int      `json:"code"`               // HTTP status
	Revision    int64    `json:"revision,omitempty"` // etcd revision of the write
	Took        Took     `json:"took"`
	Steps       []Step   `json:"steps,omitempty"`
	Refusal     string   `json:"refusal,omitempty"`  // the server's answer, filled in by the client
	Reason      string   `json:"reason,omitempty"`   // of that answer
	Withheld    string   `json:"withheld,omitempty"` // why there are no steps
}

// Step is one thing that was done about the write.
type Step struct {
	Name    string   `json:"step"`
	By      string   `json:"by,omitempty"` // plugin, webhook or policy
	At      Took     `json:"at"`           // begin, since the request came
	Took    Took     `json:"took"`
	Message string   `json:"says,omitempty"`
	Refused bool     `json:"refused,omitempty"`
	Error   string   `json:"error,omitempty"`
	Changes []Change `json:"changes,omitempty"`
	Left    int      `json:"left,omitempty"` // changes that were left out for length
}
