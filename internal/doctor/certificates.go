package doctor

import (
	"fmt"
	"time"
)

// Certificate is a certificate in a file or presented on a port.
type Certificate struct {
	Where               string
	Use                 string // who presents it to whom
	NotBefore, NotAfter time.Time
	Err                 error
}

func certificates(f Facts) []Finding {
	var out []Finding
	for _, c := range f.Certificates {
		out = append(out, certificate(c, f.Now))
	}
	return out
}

// certificate warns when a fifth of the lifetime is left: rotation starts earlier than that.
func certificate(c Certificate, now time.Time) Finding {
	f := Finding{About: c.Where}
	if c.Err != nil {
		f.Level, f.Text, f.Fix = Problem, fmt.Sprintf("%s: cannot be read: %v", c.Use, c.Err),
			"remove it and start Gantry again: it makes a new one"
		return f
	}
	left, life := c.NotAfter.Sub(now), c.NotAfter.Sub(c.NotBefore)
	day := c.NotAfter.UTC().Format(time.DateOnly)
	switch {
	case now.Before(c.NotBefore):
		f.Level, f.Text = Problem, fmt.Sprintf("%s: counts only from %s on", c.Use,
			c.NotBefore.UTC().Format(time.RFC3339))
		f.Fix = "set this machine's clock"
	case left <= 0:
		f.Level, f.Text = Problem, fmt.Sprintf("%s: ended on %s", c.Use, day)
		f.Fix = "restart the process that shows it: Gantry renews its own at each start; approve pending requests " +
			"(kubectl get csr)"
	case left < life/5:
		f.Level, f.Text = Warning, fmt.Sprintf("%s: ends on %s, in %s", c.Use, day, days(left))
		f.Fix = "find out why it was not renewed: kubectl get csr, or restart the process that shows it"
	default:
		f.Text = fmt.Sprintf("%s: counts until %s, %s more", c.Use, day, days(left))
	}
	return f
}

func days(d time.Duration) string {
	if d < 48*time.Hour {
		return d.Round(time.Minute).String()
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}
