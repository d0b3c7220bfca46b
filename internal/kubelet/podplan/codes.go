package podplan

import "github.com/gantry-project/gantry/internal/reason"

// Codes of failed tries that decisions read; the catalogue is in reason.
const (
	RunContainerError  = reason.RunContainerError
	PostStartHookError = reason.PostStartHookError
)
