package journal

import (
	"encoding/json"
	"fmt"
	"time"
)

// Took is a duration that JSON has as a string ("12.3ms").
type Took time.Duration

// String formats the duration to three significant digits.
func (t Took) String() string {
	d := time.Duration(t)
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	default:
		return d.Round(100 * time.Nanosecond).String()
	}
}

// MarshalJSON encodes the exact duration as time.Duration prints it.
func (t Took) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(t).String()) }

// UnmarshalJSON decodes what MarshalJSON returned.
func (t *Took) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("duration %q: %w", s, err)
	}
	*t = Took(d)
	return nil
}
