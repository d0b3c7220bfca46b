package explain

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/gantry-project/gantry/internal/explain/shellquote"
)

// Webhook is the part of an admission webhook that explains its refusals.
type Webhook struct {
	Name          string // of the webhook, such as pods.guard.example
	Kind          string // validatingwebhookconfiguration or mutatingwebhookconfiguration
	Configuration string // name of its configuration
	Index         int    // index in the configuration
	Ignored       bool   // failurePolicy Ignore
	Service       string // NAMESPACE/NAME of its Service; empty if it has a URL
}

// The API server's messages of refusals that name an object. The first group is its name.
var (
	noRuntimeClass     = regexp.MustCompile(`RuntimeClass "([^"]+)" not found`)
	noPriorityClass    = regexp.MustCompile(`no PriorityClass with name (\S+) was found`)
	webhookUnreachable = regexp.MustCompile(`failed calling webhook "([^"]+)"`)
	webhookDenied      = regexp.MustCompile(`admission webhook "([^"]+)" denied the request`)
)

// refused explains the API server's refusal of a Pod; false if the message is of no known kind.
func (s Subject) refused(a *Answer, message string) bool {
	namespaceContext := s.NamespaceContext
	if namespaceContext == nil {
		namespaceContext = &NamespaceContext{}
	}
	if m := noRuntimeClass.FindStringSubmatch(message); m != nil {
		s.classNotFound(a, missingClass{"RuntimeClass", m[1], "runtimeClassName", ""}, namespaceContext.RuntimeClasses)
		return true
	}
	if m := noPriorityClass.FindStringSubmatch(message); m != nil {
		var names []string
		if s.ClusterContext != nil {
			for _, c := range s.ClusterContext.Classes {
				names = append(names, c.Name)
			}
		}
		s.classNotFound(a, missingClass{"PriorityClass", m[1], "priorityClassName", `,"priority":null`}, names)
		return true
	}
	if m := webhookUnreachable.FindStringSubmatch(message); m != nil {
		s.webhookFailed(a, m[1], message)
		return true
	}
	if m := webhookDenied.FindStringSubmatch(message); m != nil {
		_, failureText, _ := strings.Cut(message, m[0])
		a.Cause = fmt.Sprintf("%s: webhook %s refuses it%s.", s.noPod(a), namespaceContext.webhookText(m[1]),
			strings.TrimSuffix(strings.TrimSuffix(failureText, "."), ":"))
		a.Fixes = textFixes("change the template as the webhook's words ask, or ask whoever owns its rule")
		return true
	}
	return false
}

// missingClass is a class that a template names and that does not exist.
type missingClass struct{ kind, name, field, more string }

// classNotFound explains a class that does not exist; have are the existing ones, nil if the user
// may not list them.
func (s Subject) classNotFound(a *Answer, c missingClass, have []string) {
	a.Cause = fmt.Sprintf("%s: %s %s does not exist, and the template names it (%s).", s.noPod(a), c.kind, c.name,
		c.field)
	if have != nil && len(have) == 0 {
		a.Cause += fmt.Sprintf(" There is no %s at all.", c.kind)
	}
	edit := func(say, value string) {
		if s.Kind == "job" || s.Kind == "cronjob" {
			a.Fixes = append(a.Fixes, Fix{Description: say})
			return
		}
		a.Fixes = append(a.Fixes,
			commandFix(say, fmt.Sprintf("kubectl -n %s patch %s %s --type=merge -p %s", s.Namespace, s.Kind, s.Name,
				shellquote.Quoted(fmt.Sprintf(`{"spec":{"template":{"spec":{%s:%s%s}}}}`,
					shellquote.JSON(c.field), value, c.more)))))
	}
	if near := nearestName(c.name, have); near != "" {
		a.Cause += fmt.Sprintf(" There is a %s %s: perhaps that was meant.", c.kind, near)
		edit("name "+near, shellquote.JSON(near))
	}
	without := "without it: the node's default runtime then runs the Pods, with less isolation if the class was " +
		"meant for that"
	if c.kind == "PriorityClass" {
		without = "without it: the Pods then have the default priority"
	}
	edit(without, "null")
	a.Fixes = append(a.Fixes, Fix{Description: fmt.Sprintf("or create the %s %s", c.kind, c.name)})
}

// webhook returns a webhook by its name.
func (a *NamespaceContext) webhook(name string) *Webhook {
	if a == nil {
		return nil
	}
	for i := range a.Webhooks {
		if a.Webhooks[i].Name == name {
			return &a.Webhooks[i]
		}
	}
	return nil
}

// webhookText names a webhook and its configuration.
func (a *NamespaceContext) webhookText(name string) string {
	if w := a.webhook(name); w != nil {
		return fmt.Sprintf("%s (%s %s)", w.Name, w.Kind, w.Configuration)
	}
	return name
}

// webhookFailed explains a webhook that cannot be called.
func (s Subject) webhookFailed(a *Answer, name, message string) {
	w := s.NamespaceContext.webhook(name)
	why := message
	if i := strings.LastIndex(message, "?timeout="); i >= 0 {
		if _, rest, ok := strings.Cut(message[i:], `": `); ok {
			why = rest
		}
	}
	a.Cause = fmt.Sprintf("%s: webhook %s must be asked about each (failurePolicy Fail), and it "+
		"cannot be: %s.", s.noPod(a), s.NamespaceContext.webhookText(name), strings.TrimSuffix(why, "."))
	if w == nil {
		a.Fixes = textFixes("start what serves the webhook, or set its failurePolicy to Ignore: nothing is then " +
			"checked while it is away")
		return
	}
	if w.Service != "" {
		ns, service, _ := strings.Cut(w.Service, "/")
		a.Fixes = []Fix{seeWhy("start what serves it: Service "+w.Service, "Service", ns, service)}
	}
	a.Fixes = append(a.Fixes,
		commandFix("or let Pods in while it is away (failurePolicy Ignore): nothing checks them then",
			fmt.Sprintf(
				`kubectl patch %s %s --type=json -p '[{"op":"replace","path":"/webhooks/%d/failurePolicy",`+
					`"value":"Ignore"}]'`, w.Kind, w.Configuration, w.Index)))
}
