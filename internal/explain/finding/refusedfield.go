package finding

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/shellquote"
)

// deniedByPolicy blames the validation of a policy that refused, by the words of its refusal; m are
// the policy, its binding and the words.
func (c *Cluster) deniedByPolicy(self Object, o metav1.Object, m []string) []Finding {
	f := Finding{Code: "DeniedByPolicy", Stage: StageCreation, Object: Object{Kind: "ValidatingAdmissionPolicy",
		Name: m[1]}, Field: "spec.validations", Value: m[3],
		Related: []Object{{Kind: "ValidatingAdmissionPolicyBinding", Name: m[2]}, self},
		Message: fmt.Sprintf("ValidatingAdmissionPolicy %s, bound by %s, refuses the Pods of %s %s: %s", m[1], m[2],
			self.Kind, self.Name, m[3])}
	if missing := c.withoutParams(f, m[3]); len(missing) > 0 {
		return missing
	}
	p, ok := get[*admissionv1.ValidatingAdmissionPolicy](c, "ValidatingAdmissionPolicy", "", m[1])
	if ok {
		for i, v := range p.Spec.Validations {
			text := v.Message
			if text == "" {
				text = strings.TrimSpace(v.Expression)
			}
			if len(p.Spec.Validations) > 1 && !strings.Contains(m[3], text) || expressionError.MatchString(m[3]) {
				continue
			}
			f.Field, f.Value = fmt.Sprintf("spec.validations[%d].expression", i), v.Expression
			f.Message += fmt.Sprintf(" It demands %s.%s", strings.TrimSpace(v.Expression), imagesAsked(o, v.Expression))
			break
		}
	}
	mend := Remedy{Say: fmt.Sprintf("let the template of %s fulfil %s", self, f.Value)}
	if w := expressionError.FindStringSubmatch(m[3]); w != nil {
		f.Field, f.Value = failedIn(p, w[1], f.Field)
		f.Numbers = map[string]string{"error": w[2]}
		f.Message += fmt.Sprintf(" The expression itself fails on such an object (%s), whatever the Pods are "+
			"like.", w[2])
		mend.Say = fmt.Sprintf("mend the expression: it reads what %s does not have; has(...) asks first", self)
		if ok {
			f.Message += warningsText(p)
		}
	}
	f.Remedies = []Remedy{mend,
		{Say: fmt.Sprintf("or let the policy only warn about it (validationActions of binding %s): it then lets "+
			"others pass too", m[2]), Run: []string{kubectl(f.Related[0], "patch",
			`--type=merge -p '{"spec":{"validationActions":["Warn"]}}'`)}}}
	return append([]Finding{f}, c.quotedByRefusal(self, o, f.Code, f.Value+" "+m[3])...)
}

// withoutParams blames the parameters that a policy's binding names and that are not there: then it
// refuses whatever it is about. denied is the finding about the refusal with the binding first
// among what plays a part, words are the API server's.
func (c *Cluster) withoutParams(denied Finding, words string) []Finding {
	if !strings.Contains(words, "no params found for policy binding") {
		return nil
	}
	at := denied.Related[0]
	binding := c.Get(at)
	if binding == nil {
		return nil
	}
	out := params(c, binding, at)
	for i := range out {
		out[i].Severity, out[i].Stage = Broken, StageCreation
		out[i].Message = fmt.Sprintf("%s %s, bound by %s, refuses the Pods of %s %s because its parameters are "+
			"missing: %s",
			denied.Object.Kind, denied.Object.Name, at.Name, denied.Related[1].Kind, denied.Related[1].Name,
			out[i].Message)
		out[i].Related = append(out[i].Related, denied.Object, denied.Related[1])
		out[i].Remedies = append(out[i].Remedies, Remedy{Say: "or let it pass what has no parameters: nothing " +
			"checks it then",
			Run: []string{kubectl(at, "patch",
				`--type=merge -p '{"spec":{"paramRef":{"parameterNotFoundAction":"Allow"}}}'`)}})
	}
	return out
}

// mutationFails blames the mutation of a policy that could not be applied; m are the policy, its
// binding and the words.
func (c *Cluster) mutationFails(self Object, m []string) []Finding {
	f := Finding{Code: "DeniedByPolicy", Stage: StageCreation, Object: Object{Kind: "MutatingAdmissionPolicy",
		Name: m[1]}, Field: "spec.mutations", Value: m[3],
		Related: []Object{{Kind: "MutatingAdmissionPolicyBinding", Name: m[2]}, self},
		Message: fmt.Sprintf("MutatingAdmissionPolicy %s, bound by %s, cannot change the Pods of %s %s, so none is "+
			"made: %s.",
			m[1], m[2], self.Kind, self.Name, strings.TrimSuffix(m[3], "."))}
	if missing := c.withoutParams(f, m[3]); len(missing) > 0 {
		return missing
	}
	p, ok := get[*admissionv1.MutatingAdmissionPolicy](c, "MutatingAdmissionPolicy", "", m[1])
	if ok && len(p.Spec.Mutations) == 1 {
		f.Field = "spec.mutations[0]"
		switch x := p.Spec.Mutations[0]; {
		case x.ApplyConfiguration != nil:
			f.Field, f.Value = f.Field+".applyConfiguration.expression", x.ApplyConfiguration.Expression
		case x.JSONPatch != nil:
			f.Field, f.Value = f.Field+".jsonPatch.expression", x.JSONPatch.Expression
		}
	}
	f.Remedies = []Remedy{{Say: "mend the expression of the mutation as the words say"}, {
		Say: "or let the policy pass what it cannot change: it then stays unchanged", Run: []string{kubectl(f.Object,
			"patch", `--type=merge -p '{"spec":{"failurePolicy":"Ignore"}}'`)}}}
	return []Finding{f}
}

// failedIn is the expression of a policy that failed, with its field; nil has otherwise.
func failedIn(p *admissionv1.ValidatingAdmissionPolicy, text, otherwise string) (field, expression string) {
	if p == nil {
		return otherwise, text
	}
	for _, e := range expressionsOf(p) {
		if strings.TrimSpace(e.text) == strings.TrimSpace(text) {
			return e.field, e.text
		}
	}
	return otherwise, text
}

// expressionError is how a refusal tells that an expression could not be evaluated.
var expressionError = regexp.MustCompile(`expression '(.*)' resulted in error: (.*)`)

// warningsText are the warnings of a policy's type checking, as sentences.
func warningsText(p *admissionv1.ValidatingAdmissionPolicy) string {
	if p.Status.TypeChecking == nil {
		return ""
	}
	out := ""
	for _, w := range p.Status.TypeChecking.ExpressionWarnings {
		out += fmt.Sprintf(" Type checking said of %s: %s", w.FieldRef, strings.TrimSpace(w.Warning))
	}
	return out
}

// webhookRemedies are what helps when a webhook refuses or fails.
func webhookRemedies(self, at Object, i int, code string) []Remedy {
	if code == "DeniedByWebhook" {
		return []Remedy{{Say: fmt.Sprintf("let the template of %s be as %s asks", self, at)}}
	}
	return []Remedy{{Say: "mend what answers for " + at.String()}, {
		Say: "or let requests pass while it is away: nothing checks them then",
		Run: []string{fmt.Sprintf(`kubectl patch %s %s --type=json -p '[{"op":"replace","path":`+
			`"/webhooks/%d/failurePolicy","value":"Ignore"}]'`, at.lower(), at.Name, i)}}}
}

// quotedByRefusal is the field of an object's template that words of a refusal quote.
func (c *Cluster) quotedByRefusal(self Object, o metav1.Object, code, words string) []Finding {
	if o == nil {
		return nil
	}
	spec, at := podSpecOf(o)
	if spec == nil {
		return nil
	}
	field, value, ok := Quoted(spec, at, words)
	if !ok {
		return nil
	}
	return []Finding{{Code: code, Severity: Threat, Stage: StageCreation, Object: self, Field: field, Value: value,
		Message: fmt.Sprintf("The refusal is about %s of %s %s, which is %s.", field, self.Kind, self.Name, value)}}
}

// invalidWords are how the API server's validation names a field and its content.
var invalidWords = regexp.MustCompile(`((?:spec|metadata)[\w.\[\]/-]*): (Invalid value|Forbidden|Required value|` +
	`Duplicate value|Unsupported value|Not found|Too long)(?:: "([^"]*)"|: (\S+?):)?`)

// invalidField blames the field of a template that the API server's validation refused, or that the
// words of another refusal quote.
func (c *Cluster) invalidField(self Object, o metav1.Object, words string) []Finding {
	spec, at := podSpecOf(o)
	if spec == nil {
		return nil
	}
	m := invalidWords.FindStringSubmatch(words)
	if m == nil {
		return c.quotedByRefusal(self, o, "PodsRefused", words)
	}
	field := m[1]
	if at != "spec" {
		field = strings.TrimSuffix(at, "spec") + field
	}
	return []Finding{{Code: "PodsRefused", Stage: StageCreation, Object: self, Field: field, Value: m[3] + m[4],
		Message: fmt.Sprintf("The API server refuses %s of the Pods of %s %s (%s): %s", field, self.Kind, self.Name,
			m[2],
			words), Remedies: []Remedy{{Say: fmt.Sprintf("change %s of %s as the text says", field, self)}}}}
}

// tooLong are the words of the API server's validation about a text that is made of another's name.
var tooLong = regexp.MustCompile(`Invalid value: "([^"]+)": must be no more than (\d+)`)

// derivedName blames the name of an object whose controller makes names and labels of it that are
// longer than the API allows.
func (c *Cluster) derivedName(self Object, words string) []Finding {
	f := Finding{Code: "NameTooLong", Stage: StageCreation, Object: self, Field: "metadata.name", Value: self.Name}
	over, long, most := 0, "", 0
	for _, m := range tooLong.FindAllStringSubmatch(words, -1) {
		n, err := strconv.Atoi(m[2])
		if err == nil && strings.HasPrefix(m[1], self.Name+"-") && len(m[1])-n > over {
			over, long, most = len(m[1])-n, m[1], n
		}
	}
	if over == 0 || over >= len(self.Name) {
		return nil
	}
	f.Want = strings.TrimRight(self.Name[:len(self.Name)-over], "-.")
	f.Numbers = map[string]string{"length": fmt.Sprint(len(long)), "most": fmt.Sprint(most),
		"nameMost": fmt.Sprint(len(self.Name) - over)}
	f.Message = fmt.Sprintf("The name of %s %s is too long: its Pods get %s, which is made of it and has %d "+
		"characters, and %d are allowed. The name may have %d.",
		self.Kind, self.Name, long, len(long), most, len(self.Name)-over)
	f.Remedies = []Remedy{{Say: fmt.Sprintf("make it anew with a shorter name, such as %s", f.Want), Run: []string{
		kubectl(self, "get", "-o json") + " | kubectl patch --local -f - --type=merge -p " + shellquote.Quoted(
			fmt.Sprintf(`{"metadata":{"name":%s,"uid":null,"resourceVersion":null}}`, jsonText(f.Want))) +
			" -o json | kubectl create -f -", kubectl(self, "delete", "")}}}
	return []Finding{f}
}

// imagesAsked says, with a space before it, which images an object has, where an expression is
// about images; empty where it is not.
func imagesAsked(o metav1.Object, expression string) string {
	spec, _ := podSpecOf(o)
	if spec == nil || !strings.Contains(expression, "image") {
		return ""
	}
	var images []string
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			images = append(images, list[i].Image)
		}
	}
	return fmt.Sprintf(" Its images are %s.", joined(images))
}
