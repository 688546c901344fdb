; A program that stands for both of ours in proofs of the installer: it writes down how it was called, runs until it is told to
; quit, as the tray does, and tells that as `mailbox-appliance tray --quit` does. A file `stubborn` beside its notes: it stays.
Unicode true
Target amd64-unicode
SilentInstall silent
RequestExecutionLevel user
SetCompressor zlib
OutFile "${OUT}"
!include LogicLib.nsh
!include FileFunc.nsh
!define NOTES "$LOCALAPPDATA\mailbox-appliance"

Section
  ${GetParameters} $0
  CreateDirectory "${NOTES}"
  FileOpen $1 "${NOTES}\calls" a
  FileSeek $1 0 END
  FileWrite $1 "$EXEFILE $0$\n"
  FileClose $1
  ${If} $0 == "tray --quit"
    FileOpen $1 "${NOTES}\quit" w
    FileClose $1
  ${Else}
    Delete "${NOTES}\quit"
    ${Do}
      Sleep 100
    ${LoopUntil} ${FileExists} "${NOTES}\quit"
    ${If} ${FileExists} "${NOTES}\stubborn"
      Sleep 60000
    ${EndIf}
  ${EndIf}
SectionEnd
