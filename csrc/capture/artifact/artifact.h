/* Graphs as parts, shared by artifact.c and artifact_read.c. */
#ifndef DLC_ARTIFACT_H
#define DLC_ARTIFACT_H

#include "capture/capture.h"

/* Names of the kinds of InputSpec and OutputSpec. */
extern const char *const artifact_inputs[INPUT_UNUSED + 1];
extern const char *const artifact_outputs[OUTPUT_INPUT + 1];

#endif
