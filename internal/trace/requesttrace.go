package trace

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/gantry-project/gantry/internal/journal"
)

// maxRequestTrace bounds a decompressed trace, in bytes.
const maxRequestTrace = 16 << 20

// DecodeRequestTrace decodes the header journal.TraceHeader.
func DecodeRequestTrace(header string) (s journal.RequestTrace, err error) {
	raw, err := base64.StdEncoding.DecodeString(header)
	if err != nil {
		return s, fmt.Errorf("story of the write: %w", err)
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return s, fmt.Errorf("story of the write: %w", err)
	}
	if raw, err = io.ReadAll(io.LimitReader(z, maxRequestTrace)); err != nil {
		return s, fmt.Errorf("story of the write: %w", err)
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return s, fmt.Errorf("story of the write: %w", err)
	}
	return s, nil
}

// WriteRequestTrace prints the trace of a write: a line per step with start and duration, below it
// what the step changed. Unless all is set, steps that changed and refused nothing are only
// counted.
func WriteRequestTrace(w io.Writer, s journal.RequestTrace, all bool) error {
	p := &printer{w: w}
	p.line("%s", headline(s))
	if s.Withheld != "" {
		p.line("  the steps are withheld: %s", s.Withheld)
		p.line("  → let a cluster administrator grant the verb %q on the resource, or ask as somebody who has it",
			journal.ExplainVerb)
	}
	quiet := map[string]int{}
	var order []string
	for _, step := range s.Steps {
		if !all && isUnremarkable(step) {
			if quiet[step.Name] == 0 {
				order = append(order, step.Name)
			}
			quiet[step.Name]++
			continue
		}
		p.summarize(&order, quiet)
		p.step(step)
	}
	p.summarize(&order, quiet)
	if s.Code >= 400 {
		p.line("  refused: %s", strings.TrimSpace(s.Refusal))
		p.line("  → %s", remedy(s))
	}
	return p.err
}

func headline(s journal.RequestTrace) string {
	what := s.Resource
	if s.Subresource != "" {
		what += "/" + s.Subresource
	}
	if s.Name != "" {
		what += " " + s.Name
	}
	if s.Namespace != "" {
		what += " in " + s.Namespace
	}
	if what == "" {
		what = "the object"
	}
	how := fmt.Sprintf("took %s", s.Took)
	switch {
	case s.Code >= 400:
		how = fmt.Sprintf("refused with %d after %s", s.Code, s.Took)
	case s.DryRun:
		how += ", dry run"
	case s.Revision > 0:
		how += fmt.Sprintf(", revision %d", s.Revision)
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s: %s", s.Verb, what, how))
}

func isUnremarkable(s journal.Step) bool {
	return s.By != "" && len(s.Changes) == 0 && !s.Refused && s.Error == "" && s.Message == ""
}

type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

func (p *printer) summarize(order *[]string, n map[string]int) {
	for _, name := range *order {
		p.line("  %10s %9s  %s: nothing to change or refuse for %d more", "", "", name, n[name])
		delete(n, name)
	}
	*order = nil
}

func (p *printer) step(s journal.Step) {
	what := s.Name
	if s.By != "" {
		what += " by " + s.By
	}
	if s.Refused {
		what += " REFUSED"
	}
	if s.Message != "" {
		what += ": " + s.Message
	}
	p.line("  +%9s %9s  %s", s.At, s.Took, what)
	if s.Error != "" {
		p.line("  %10s %9s    %s", "", "", s.Error)
	}
	for _, c := range s.Changes {
		p.line("  %10s %9s    %s", "", "", c.Line())
	}
	if s.Left > 0 {
		p.line("  %10s %9s    … and %d more fields", "", "", s.Left)
	}
}

// remedy returns what to do about a refused write.
func remedy(s journal.RequestTrace) string {
	by, step := "", ""
	for _, p := range s.Steps {
		if p.Refused {
			step, by = p.Name, p.By
		}
	}
	if step == "" {
		step = map[int]string{401: journal.StepAuthentication, 403: journal.StepAuthorization, 409: journal.StepStorage,
			404: journal.StepStorage, 422: journal.StepValidation}[s.Code]
	}
	switch step {
	case journal.StepAuthentication:
		return "the credential is not known or has run out: take another kubeconfig, or a new token"
	case journal.StepImpersonation:
		return "grant the verb impersonate on the user, group or service account, or leave out --as"
	case journal.StepAuthorization:
		return fmt.Sprintf("grant it: kubectl create role NAME --verb=%s --resource=%s, and a RoleBinding to %s",
			s.Verb, s.Resource, s.User)
	case journal.StepReading:
		return "the body could not be made an object: check apiVersion, kind and the field named above"
	case journal.StepValidation:
		return "correct the fields named above; the object was not stored"
	case journal.StepMutation, journal.StepAdmission:
		return admissionRemedy(by)
	case journal.StepStorage:
		return storageRemedy(s.Code)
	}
	return "the answer above names what to correct"
}

func admissionRemedy(by string) string {
	for sign, text := range map[string]string{
		"AdmissionWebhook": "a webhook said no: satisfy what it says, or look at kubectl get " +
			"validatingwebhookconfigurations,mutatingwebhookconfigurations",
		"ValidatingAdmissionPolicy": "a policy said no: satisfy its message, or look at kubectl get " +
			"validatingadmissionpolicies,validatingadmissionpolicybindings",
		"MutatingAdmissionPolicy": "a policy failed: look at kubectl get " +
			"mutatingadmissionpolicies,mutatingadmissionpolicybindings",
		"ResourceQuota": "lower the requests or the number of objects, or raise the quota: kubectl describe " +
			"resourcequota",
		"LimitRanger": "keep within the LimitRange: kubectl describe limitrange",
		"PodSecurity": "change the security context as the text says, or the namespace's label " +
			"pod-security.kubernetes.io/enforce",
		"ServiceAccount":     "make the service account first, or name one that is there",
		"NamespaceLifecycle": "make the namespace first, or wait until it has ended and make it anew",
		"NodeRestriction":    "a node may write only itself and the Pods bound to it",
		"Priority":           "name a PriorityClass that is there: kubectl get priorityclasses",
	} {
		if strings.Contains(by, sign) {
			return text
		}
	}
	return "satisfy what the plugin " + by + " says"
}

func storageRemedy(code int) string {
	switch code {
	case 404:
		return "the object is not there: create it, or check name and namespace"
	case 409:
		return "it is there already, or somebody changed it meanwhile: read it again and repeat, or let kubectl " +
			"apply merge"
	}
	return "look at the store: gantry etcd status"
}
