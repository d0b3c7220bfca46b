package nodelog

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"time"

	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Bounds of a request, as upstream's.
const (
	maxTail     = 100000
	maxName     = 256
	maxServices = 4
)

// Query is what is asked for.
type Query struct {
	Services []string
	Files    []string
	Options
}

// Options choose among a service's lines.
type Options struct {
	Since, Until *time.Time
	Tail, Boot   *int
	Pattern      string
}

// Parse reads a request; none is nil: there is no query in it.
func Parse(q url.Values) (*Query, field.ErrorList) {
	var out Query
	var errs field.ErrorList
	queries, any := q["query"]
	for _, text := range queries {
		switch {
		case strings.ContainsAny(text, `/\`):
			out.Files = append(out.Files, text)
		case strings.TrimSpace(text) != "":
			out.Services = append(out.Services, text)
		}
	}
	if any && len(out.Files)+len(out.Services) == 0 {
		errs = append(errs, field.Invalid(field.NewPath("query"), queries, "query cannot be empty"))
	}
	for name, to := range map[string]**time.Time{"sinceTime": &out.Since, "untilTime": &out.Until} {
		text := q.Get(name)
		if text == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			errs = append(errs, field.Invalid(field.NewPath(name), text, "invalid time format"))
			continue
		}
		*to = &at
	}
	for name, to := range map[string]**int{"boot": &out.Boot, "tailLines": &out.Tail} {
		text := q.Get(name)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			errs = append(errs, field.Invalid(field.NewPath(name), text, err.Error()))
			continue
		}
		*to = &n
	}
	out.Pattern = q.Get("pattern")
	if len(errs) > 0 || len(out.Files)+len(out.Services) == 0 && out.Options == (Options{}) {
		return nil, errs
	}
	return &out, nil
}

// Check says what cannot be answered.
func (n *Query) Check() field.ErrorList {
	path := field.NewPath("query")
	var errs field.ErrorList
	for _, s := range n.Services {
		if err := checkServiceName(s); err != nil {
			errs = append(errs, field.Invalid(path, s, err.Error()))
		}
	}
	if len(n.Services) > maxServices {
		errs = append(errs, field.TooMany(path, len(n.Services), maxServices))
	}
	switch {
	case len(n.Files)+len(n.Services) == 0:
		errs = append(errs, field.Required(path, "cannot be empty with options"))
	case len(n.Files) > 0 && len(n.Services) > 0:
		errs = append(errs, field.Invalid(path, fmt.Sprintf("%v, %v", n.Files, n.Services),
			"cannot specify a file and service"))
	case len(n.Files) > 1:
		errs = append(errs, field.Invalid(path, n.Files, "cannot specify more than one file"))
	case len(n.Files) == 1 && n.Options != (Options{}):
		errs = append(errs, field.Invalid(path, n.Files, "cannot specify file with options"))
	}
	if n.Since != nil && n.Until != nil && n.Since.After(*n.Until) {
		errs = append(errs, field.Invalid(field.NewPath("untilTime"), n.Until, "must be after `sinceTime`"))
	}
	if n.Boot != nil && *n.Boot > 0 {
		errs = append(errs, field.Invalid(field.NewPath("boot"), *n.Boot, "must be less than 1"))
	}
	if n.Tail != nil {
		if bad := utilvalidation.IsInRange(*n.Tail, 0, maxTail); len(bad) > 0 {
			errs = append(errs, field.Invalid(field.NewPath("tailLines"), *n.Tail, bad[0]))
		}
	}
	if _, err := syntax.Parse(n.Pattern, syntax.Perl); err != nil {
		errs = append(errs, field.Invalid(field.NewPath("pattern"), n.Pattern, err.Error()))
	}
	return errs
}

// unsafeCharacters is everything that is not known to be harmless in journalctl's arguments.
var unsafeCharacters = regexp.MustCompile(`[^a-zA-Z\-_0-9@]+`)

func checkServiceName(service string) error {
	if len(service) > maxName {
		return errors.New("length must be less than 100")
	}
	if unsafeCharacters.MatchString(service) {
		return errors.New("input contains unsupported characters")
	}
	return nil
}

// layout is how journalctl reads times.
const layout = "2006-1-2 15:4:5"

// args are journalctl's for the query and these services.
func (n *Query) args(services []string) []string {
	out := []string{"--utc", "--no-pager", "--output=short-precise"}
	if n.Since != nil {
		out = append(out, "--since="+n.Since.UTC().Format(layout))
	}
	if n.Until != nil {
		out = append(out, "--until="+n.Until.UTC().Format(layout))
	}
	if n.Tail != nil {
		out = append(out, "--pager-end", fmt.Sprintf("--lines=%d", *n.Tail))
	}
	for _, s := range services {
		out = append(out, "--unit="+s)
	}
	if n.Pattern != "" {
		out = append(out, "--grep="+n.Pattern, "--case-sensitive=false")
	}
	boot := 0
	if n.Boot != nil {
		boot = *n.Boot
	}
	return append(out, fmt.Sprintf("--boot=%d", boot))
}
